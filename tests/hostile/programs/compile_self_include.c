#include "compile_self_include.c"
#include "compile_self_include.c"

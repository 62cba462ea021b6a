#include "hostile.h"
#define QUOTE_(x) #x
#define QUOTE(x) QUOTE_(x)
#include "/etc/shadow"
#include QUOTE(HOST_SECRET)

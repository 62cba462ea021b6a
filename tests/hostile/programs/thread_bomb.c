#include "hostile.h"
#include <pthread.h>
static void* wait_for_ever(void* x) {
  for (;;) pause();
  return x;
}
int main(void) {
  pthread_t thread;
  for (;;) pthread_create(&thread, 0, wait_for_ever, 0);
}

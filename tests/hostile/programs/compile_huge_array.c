char a[1 << 30] = {1};
int main(void) { return a[5]; }

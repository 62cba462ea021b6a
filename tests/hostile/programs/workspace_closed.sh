chmod 000 /box/workspace /box/tmp /box/shm /box

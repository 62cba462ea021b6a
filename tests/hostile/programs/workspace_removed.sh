cd /box && rm -rf workspace tmp shm

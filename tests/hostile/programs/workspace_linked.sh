cd /box && mv workspace elsewhere && ln -s / workspace

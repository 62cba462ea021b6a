cd /box && mv workspace elsewhere && mkdir workspace && echo planted > workspace/answer.c

echo begin
head -c 1000000000 /dev/zero
echo end

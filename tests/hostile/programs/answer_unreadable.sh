mkdir closed && echo x > closed/file && chmod 000 closed
echo y > file && chmod 000 file
mkdir d && chmod 111 d

import os, socket
for where in [("127.0.0.1", int(os.environ["HOST_PORT"])), ("169.254.169.254", 80)]:
    try:
        socket.create_connection(where, 1)
        print("ESCAPED", where)
    except OSError:
        pass
try:
    print("ESCAPED", socket.getaddrinfo("example.com", 80))
except OSError:
    pass

exec sh "$0"

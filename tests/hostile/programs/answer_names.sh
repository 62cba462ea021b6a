touch -- '-rf' '--help' "$(printf 'a\nb')" "$(printf 'esc\033[2J')" "$(printf 'bad\377')" 'a:b.h' '...' ' '
touch "$(printf '%0250d' 1)"
true

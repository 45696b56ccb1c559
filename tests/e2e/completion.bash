# shellcheck shell=bash
# For completion.sh and completion-zsh.sh: the commands and options of a --help, found in another
# way than by the completions.

options_of() { # PROGRAM [COMMAND]
	"$@" --help | grep -E '^ +-' | tr -s ' ,' '\n' | grep -E '^(-[a-zA-Z0-9]|--[a-z0-9-]+)$' | sort -u | tr '\n' ' '
}
commands_of() { "$1" --help | sed -nE '/^Commands:/,/^$/s/^  ([a-z]+) .*/\1/p' | tr '\n' ' '; }

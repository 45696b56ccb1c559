# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # the sourcing script's; lib.sh's
# A terminal for tests, by tmux. Sourced after lib.sh; without tmux or
# libedit the test is skipped.

need tmux
if ! rftp --version | grep -q '+edit'; then skip_all "built without libedit"; fi
export TERM=screen
run tmux -S "$tmp/tmux" -f /dev/null new-session -d -s rftp -x 80 -y 24 'exec sleep 600'
status_is 0 || skip_all "tmux does not run here: $(head -n 1 "$tmp/err")"

terminal() { tmux -S "$tmp/tmux" "$@"; }
others+=("$(terminal display-message -p '#{pid}' 2>/dev/null)")
screen() { terminal capture-pane -p | sed 's/ *$//' | sed -e :a -e '/^\n*$/{$d;N;ba' -e '}'; }
keys() { terminal send-keys "$@"; }
# line TEXT: typed, with the key at its end
line() { keys -l "$1"; keys Enter; }
last_is() { [ "$(screen | tail -n 1)" = "$1" ]; }
shows() { screen | grep -qF -e "$1"; }
# check_last NAME LINE: the screen's last line becomes LINE
check_last() { check "$1" patience 10 last_is "$2" || { screen | comment; return 1; }; }
check_shows() { check "$1" patience 10 shows "$2" || { screen | comment; return 1; }; }
# Until nothing of the old screen is left that a look would find.
one_line() { [ "$(screen | wc -l)" -eq 1 ]; }
clear_screen() { keys C-u C-l; patience 5 one_line || comment "not clear: $(screen)"; }

# Each in a window of its own, the one before gone.
begin() { # COLUMNS ROWS COMMAND
	terminal new-window -k -t "$session:0" -c "$tmp/here" \
		"$3; echo \"status \$?\"; exec sleep 600" || skip_all "tmux opens no window"
	terminal resize-window -t "$session:0" -x "$1" -y "$2"
}
session=rftp
ran="rftp in tmux"

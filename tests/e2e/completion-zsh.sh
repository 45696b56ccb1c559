#!/bin/bash
# shellcheck disable=SC2034,SC2317 # for lib.sh; check calls them
# zsh's completions for rftp, rftpd, rftp-numa, rftp-iser and rftp-slurm, on a terminal: all commands and
# options that --help has, words of their arguments, local names. TAP.

. "${top_srcdir:?}/tests/e2e/lib.sh"
skip_with_sanitizers
. "$lib/completion.bash"
need zsh python3

mkdir -p "$tmp/work" "$tmp/zsh" && cd "$tmp/work" || exit 99
mkdir dir && touch file 'two words' dir/inside .hidden
mkdir -p "$tmp/state" "$tmp/other"
touch "$tmp/state/"{mem1.json,mem1.lio.json,store.1.json,lock,"odd name.json",.json} "$tmp/other/third.json"

# wants NAME EXPECTED LINE: the words of EXPECTED must be offered at the end of LINE. One zsh
# answers all of them, below.
what=() expected=() lines=()
wants() {
	what+=("$1") expected+=("$2") lines+=("$3")
}

commands=$(commands_of rftp)
check "there are commands" test "$(wc -w <<<"$commands")" -ge 9
wants "the commands" "$commands" "rftp "
wants "one of them" put "rftp pu"
wants "all options of rftp" "$(options_of rftp)" "rftp -"
wants "all options of rftpd" "$(options_of rftpd)" "rftpd -"
for c in $commands; do
	wants "the options of rftp $c" "$(options_of rftp "$c")" "rftp $c -"
done
wants "an option in front does not hide the command" "$(options_of rftp ls)" "rftp -v ls -"
wants "nor does its argument" "$(options_of rftp ls)" "rftp --retries 3 ls -"
wants "one option" "--progress --prot" "rftp put --pro"
wants "once more" "--verbose --version" "rftp put -v --ver"
wants "words of an option" "clear safe private" "rftp put --prot "
wants "the one that is meant" private "rftp put --prot pr"
wants "behind =" "clear safe private" "rftp put --prot="
wants "and further" safe "rftp put --prot=s"
wants "of rftpd" "nodelete off ro rw upload" "rftpd --anonymous "
wants "by its letter" "nodelete off ro rw upload" "rftpd -a "
wants "on or off" "on off" "rftp bench --crc "
wants "a node" "auto off nic storage node:" "rftp put --numa "
wants "nothing for a number" "" "rftp put --channels "
wants "a file" file "rftp put --ca f"
wants "a directory" dir "rftpd --root "
wants "a program" ssh-keygen "rftp put --ssh ssh-keyge"
mkdir -p "$HOME/.config/rftp"
printf 'prot safe\n[host h]\n[dtn1]\nurl = a:b\n [ far ] # one\nurl = a:c\n' \
	>"$HOME/.config/rftp/rftp.conf"
wants "local names for put, and servers" 'dir dtn1: far: file near: two\ words' "rftp put "
wants "sections of rftp.conf" "dtn1: far: near:" "rftp rm "
wants "one of them" "dtn1:" "rftp ls d"
wants "also the second" "far: file" "rftp put dir f"
wants "below a directory" inside "rftp get dir/"
mkdir -p "$tmp/root/data/run 1" "$tmp/root/da"
touch "$tmp/root/data/run 1/a%b" "$tmp/root/data/raw"
start_server there --root "$tmp/root" --anonymous ro
run rftp ls --accept-new "$url"
printf '[near]\nurl = %s\n' "$url" >>"$HOME/.config/rftp/rftp.conf"
wants "names on a server" "da/ data/" "rftp ls $url/da"
wants "below a directory there" 'raw run\ 1/' "rftp get $url/data/r"
wants "with a blank, and a percent sign" "a%25b" "rftp rm $url/data/run\\ 1/a"
wants "of a section" "da/ data/" "rftp put file near:d"

commands=$(commands_of rftp-numa)
wants "the commands of rftp-numa" "$commands" "rftp-numa "
for c in $commands; do
	wants "the options of rftp-numa $c" "$(options_of rftp-numa "$c")" "rftp-numa $c -"
	wants "and no other words" "" "rftp-numa $c "
done
wants "read or write" "read write" "rftp-numa affinity --op "
wants "a directory to measure on, or a file" 'dir file two\ words' "rftp-numa affinity --path "
wants "nothing for a node" "" "rftp-numa affinity --device-node "
wants "nor behind what has no argument" "" "rftp-numa affinity --buffered "

commands=$(commands_of rftp-iser)
wants "the commands of rftp-iser" "$commands" "rftp-iser "
for c in $commands; do
	wants "the options of rftp-iser $c" "$(options_of rftp-iser "$c")" "rftp-iser $c -"
done
wants "a file that says what is wanted" 'dir file two\ words' "rftp-iser plan "
wants "a secret is generated" generate "rftp-iser plan --chap g"
wants "or in a file" file "rftp-iser plan --mutual-chap f"
wants "a device" null "rftp-iser plan --block /dev/nul"
wants "a file of a size" file "rftp-iser plan --file f"
wants "no address that is not known" "" "rftp-iser login "
for c in status verify remove; do
	wants "$c: the plans that were applied" "mem1 store.1" "rftp-iser $c "
	wants "$c: one of them" mem1 "rftp-iser $c --json m"
	wants "$c: those of another directory" third "rftp-iser $c --state $tmp/other "
	wants "$c: and so" third "rftp-iser $c --state=$tmp/other t"
	wants "$c: none are there" "" "rftp-iser $c --state $tmp/nowhere "
done

commands=$(commands_of rftp-slurm)
wants "the commands of rftp-slurm" "$commands" "rftp-slurm "
for c in $commands; do
	wants "the options of rftp-slurm $c" "$(options_of rftp-slurm "$c")" "rftp-slurm $c -"
done
wants "local names to put" 'dir file two\ words' "rftp-slurm put --nodes 2 "
copies=$HOME/.local/state/rftp/slurm
mkdir -p "$copies"/{20261128-1-ab,20261129-2-cd,none} "$tmp/states/20261130-3-ef"
touch "$copies"/{20261128-1-ab,20261129-2-cd}/job.json "$tmp/states/20261130-3-ef/job.json"
for c in status wait cancel retry; do
	wants "$c: the copies" "20261128-1-ab 20261129-2-cd" "rftp-slurm $c "
	wants "$c: those of another directory" 20261130-3-ef "rftp-slurm $c --dir $tmp/states "
done

# ---- asked ----

# offered LINE: sorted
offered() {
	awk -F '\t' -v line="$1" '$1 == line && $2 != "" { print $2 }' "$tmp/offers" | LC_ALL=C sort -u
}
offers() { # EXPECTED LINE
	diff <(sed 's/\\ /_/g' <<<"$1" | tr ' ' '\n' | sed '/^$/d' | LC_ALL=C sort) \
		<(offered "$2" | sed 's/\\\{0,1\} /_/g' | LC_ALL=C sort) | comment
	[ "${PIPESTATUS[0]}" -eq 0 ]
}
# ask FIRST: for thirty lines from there on, which on-terminal has the patience for
ask() {
	printf '%s\n' "${lines[@]:$1:30}" >"$tmp/lines"
	ran="zsh, asked from line $1 on"
	LINES_FILE=$tmp/lines OFFERS_FILE=$tmp/offers FUNCTIONS=$top_srcdir/completion \
		ZDOTDIR=$tmp/zsh RFTP_ISER_STATE=$tmp/state TERM=dumb \
		"$lib/on-terminal" "$tmp/t" -- zsh -d -i 2>"$tmp/err"
	status=$?
	status_is 0 || comment <"$tmp/t"
}
cp "$lib/zsh-offers" "$tmp/zsh/.zshrc"
: >"$tmp/offers"
for ((i = 0; i < ${#lines[@]}; i += 30)); do ask $i; done
check "all is asked" test "$(grep -c "$(printf '\t$')" "$tmp/offers")" -eq "${#lines[@]}"
for ((i = 0; i < ${#lines[@]}; i++)); do
	check "${what[i]}" offers "${expected[i]}" "${lines[i]}"
done

# ---- as it is typed ----

if command -v tmux >/dev/null; then
	cat >"$tmp/zsh/.zshrc" <<-RC
		fpath=('$top_srcdir/completion' \$fpath)
		autoload -Uz compinit && compinit -u -D
		PS1='> '
	RC
	terminal() { tmux -S "$tmp/tmux" "$@"; }
	screen() { terminal capture-pane -p | sed 's/ *$//' | sed '/^$/d'; }
	shows() { screen | grep -qxF -e "$1"; }
	press() { # TEXT: and the tabulator
		terminal send-keys -l -- "$1"
		terminal send-keys Tab
	}
	run tmux -S "$tmp/tmux" -f /dev/null new-session -d -x 80 -y 24 \
		"ZDOTDIR='$tmp/zsh' TERM=screen exec zsh -d -i"
	others+=("$(terminal display-message -p '#{pid}')")
	ran="zsh in tmux"
	check "it is there" patience 20 shows '>'
	press 'rftp pu'
	check "a command, typed" patience 20 shows '> rftp put'
	press 'fi'
	check "a file" patience 20 shows '> rftp put file'
	press '--pro'
	check "options, with what they do" patience 20 shows '--prot      -- protection of the data on the wire (private)'
	press 't pri'
	check "and a value" patience 20 shows '> rftp put file --prot private' || screen | comment
	press '--t'
	check "what stands below an option" patience 20 shows '--transport  -- transport of the data (auto)'
	terminal kill-server
else
	skip "typed with tabs" "there is no tmux here"
fi
finish

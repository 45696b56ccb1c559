#!/bin/bash
# shellcheck disable=SC2034,SC2154,SC2317 # lib.sh knows them
# Trust in the server, and secrets sent to it: certificates of a CA, valid and invalid in
# all ways, and sessions without TLS. TAP.

. "${top_srcdir:?}/tests/e2e/lib.sh"
need python3 setsid openssl

limit=30
mkdir "$tmp/root" "$tmp/here" "$tmp/ca"
random "$tmp/file" 100000

# ---- certificates ----

cat >"$tmp/ca/cnf" <<'CNF'
[ca]
default_ca = c
[c]
database = index.txt
serial = serial
new_certs_dir = .
default_md = sha256
policy = p
unique_subject = no
[p]
commonName = supplied
[req]
distinguished_name = dn
[dn]
[v3ca]
basicConstraints = critical, CA:true
keyUsage = keyCertSign
subjectKeyIdentifier = hash
CNF
now=$(date -u +%Y%m%d000000Z)
later=$(date -u -d '+2 days' +%Y%m%d000000Z)
much_later=$(date -u -d '+5 days' +%Y%m%d000000Z)

key() { openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1" && chmod 600 "$1"; }
# issue NAME FROM UNTIL SIGNER EXTENSIONS: NAME.pem and NAME.key; it signs itself when it is SIGNER
issue() {
	local by=(-cert "$4.pem" -keyfile "$4.key")
	[ "$1" != "$4" ] || by=(-selfsign -keyfile "$4.key")
	key "$1.key" && openssl req -config cnf -new -key "$1.key" -subj "/CN=$1" -out "$1.csr" &&
		openssl ca -config cnf -batch "${by[@]}" -in "$1.csr" -startdate "$2" -enddate "$3" \
			-extfile <(printf '%s\n' "$5") -notext -out "$1.pem"
}
# server NAME CERTIFICATE...: a state directory with the key of the first of them
state() {
	local dir=$tmp/$1.state first=$2
	shift
	mkdir -m 700 "$dir" && cp "$first.key" "$dir/key.pem" && cat "${@/%/.pem}" >"$dir/cert.pem"
}
make_all() {
	local v3ca host='subjectAltName=DNS:localhost'
	cd "$tmp/ca" && : >index.txt && echo 01 >serial || return
	v3ca=$(sed -n '/^\[v3ca\]/,$ { /^\[/!p }' cnf)
	issue top "$now" "$later" top "$v3ca" && issue other "$now" "$later" other "$v3ca" &&
		issue middle "$now" "$later" top "$v3ca" &&
		issue oldmiddle 20200101000000Z 20200201000000Z top "$v3ca" &&
		issue right "$now" "$later" top "$host" && state right right &&
		issue chained "$now" "$later" middle "$host" && state chained chained middle &&
		state broken chained &&
		issue overdue "$now" "$later" oldmiddle "$host" && state overdue overdue oldmiddle &&
		issue elsewhere "$now" "$later" top 'subjectAltName=DNS:elsewhere.example.org' && state elsewhere elsewhere &&
		issue address "$now" "$later" top 'subjectAltName=IP:127.0.0.1' && state address address &&
		issue nobody "$now" "$later" top 'basicConstraints=CA:false' && state nobody nobody &&
		issue expired 20200101000000Z 20200201000000Z top "$host" && state expired expired &&
		issue alone 20200101000000Z 20200201000000Z alone "$host" && state alone alone &&
		issue early "$later" "$much_later" top "$host" && state early early
}
if (make_all) >"$tmp/openssl" 2>&1; then
	# meet NAME HOST OPTION...: put to the server with that state
	meet() {
		local name=$1 host=$2
		shift 2
		[ -n "${at[$name]:-}" ] || { start_server "$name" --root "$tmp/root" --anonymous rw && at[$name]=$port; }
		rm -f "$tmp/root/f"
		run rftp put -q "$@" "$tmp/file" "rftp://$host:${at[$name]}/f"
	}
	declare -A at
	no_file() { [ ! -e "$tmp/root/f" ]; }
	ca=(--ca "$tmp/ca/top.pem")
	meet right localhost "${ca[@]}"
	check "a certificate of the CA" status_is 0
	check "without a word" test ! -s "$tmp/err"
	check "it is a matter of the CA, not of known keys" test ! -e "$HOME/.config/rftp/known_hosts"
	meet right localhost --ca "$tmp/ca/other.pem"
	check "of another CA" fails_with 3 "localhost port ${at[right]}.*certificate.*(issuer|self-signed)"
	check "and no file" no_file
	meet right LOCALHOST "${ca[@]}"
	check "names have no case" status_is 0
	meet right 127.0.0.1 "${ca[@]}"
	check "by an address that is not in it" fails_with 3 '127.0.0.1.*certificate.*(address|name)'
	meet chained localhost "${ca[@]}"
	check "a chain" status_is 0
	check "the file is there" same "$tmp/file" "$tmp/root/f"
	meet broken localhost "${ca[@]}"
	check "a chain with a link missing" fails_with 3 'localhost.*certificate.*issuer'
	check "and no file" no_file
	meet overdue localhost "${ca[@]}"
	check "a chain with a link that has expired" fails_with 3 'localhost.*certificate.*expired'
	check "and no file" no_file
	meet elsewhere localhost "${ca[@]}"
	check "for another host" fails_with 3 'localhost.*certificate.*(host|name)'
	check "and no file" no_file
	meet address 127.0.0.1 "${ca[@]}"
	check "for an address" status_is 0
	meet address localhost "${ca[@]}"
	check "which is not a name" fails_with 3 'localhost.*certificate.*(host|name)'
	meet nobody localhost "${ca[@]}"
	check "for nobody by name" fails_with 3 'localhost.*certificate.*(host|name)'
	meet expired localhost "${ca[@]}"
	check "that has expired" fails_with 3 'localhost.*certificate.*(expired|until)'
	check "and no file" no_file
	meet early localhost "${ca[@]}"
	check "that is not valid yet" fails_with 3 'localhost.*certificate.*not (yet )?valid'
	check "and no file" no_file
	# Nor without a CA.
	meet expired localhost --accept-new
	check "an expired certificate without --ca" fails_with 3 'valid until 2020-02-01'
	meet alone localhost --accept-new
	check "one that has signed itself" fails_with 3 'valid until 2020-02-01'
	check "and no file" no_file
	meet early localhost --accept-new
	check "one that is not valid yet without --ca" fails_with 3 "not valid before $(date -u -d '+2 days' +%F)"
	check "and no file" no_file
	check "none of them is remembered" test ! -e "$HOME/.config/rftp/known_hosts"
	meet right localhost --ca "$tmp/nothing"
	check "a CA file that is not there: 3" fails_with 3 "$tmp/nothing.*No such file"
	meet right localhost --ca "$tmp/file"
	check "one that holds none: 3" fails_with 3 "no CA certificates in $tmp/file"
	mkdir -p "$HOME/.config/rftp"
	printf '[host localhost]\nca %s\n' "$tmp/ca/top.pem" >"$HOME/.config/rftp/rftp.conf"
	meet right localhost
	check "by rftp.conf" status_is 0
	meet elsewhere localhost
	check "which holds" fails_with 3 'certificate'
	rm "$HOME/.config/rftp/rftp.conf"
	for p in "${servers[@]}"; do stop_server "$p"; done
else
	skip "certificates" "openssl cannot make them: $(tail -n 1 "$tmp/openssl" | tr '#' ' ')"
fi

# ---- no TLS ----

printf 'alice:%s:%s:/:rw\n' "$(echo s3cret | rftpd --hash-password)" "$tmp/root" >"$tmp/users"
chmod 600 "$tmp/users"
printf 'machine 127.0.0.1 login alice password s3cret\nmachine localhost login alice password s3cret\n' >"$tmp/netrc"
chmod 600 "$tmp/netrc"
mkfifo "$tmp/hold"
exec 7<>"$tmp/hold"
# through NAME: a relay to the server that has been started last; its url is $url
through() {
	"$lib/relay.py" "$port" "$tmp/$1.said" "$tmp/$1.relay" <"$tmp/hold" &
	others+=($!)
	patience 10 test -s "$tmp/$1.relay"
	url=rftp://127.0.0.1:$(cat "$tmp/$1.relay")
}
never_said() { ! grep -aE 's3cret|PASS s3' "$tmp/$1.said" | comment | grep .; }
rm -f "$tmp/root/f"

start_server plain --root "$tmp/root" --anonymous rw --users "$tmp/users" --plain --prot-min clear
through plain
run rftp put -q --plain --prot clear --netrc "$tmp/netrc" "$tmp/file" "$url/f"
check "--plain with a password at hand: 3" fails_with 3 'password of alice is not sent.*in clear'
check "and no file" test ! -e "$tmp/root/f"
check "the password has not crossed" never_said plain
run rftp put -q --plain --prot clear --netrc "$tmp/netrc" "$tmp/file" "rftp://alice@${url#rftp://}/f"
check "--plain with a user in the URL: 3" fails_with 3 'password of alice is not sent.*in clear'
check "the password has not crossed" never_said plain
TERM=xterm "$lib/on-terminal" "$tmp/t" -- rftp put -q --plain --prot clear "$tmp/file" "rftp://alice@${url#rftp://}/f"
check "nor is it asked for: 3" test $? -eq 3 -a "$(grep -c 'Password of' "$tmp/t")" -eq 0
run rftp put -q --plain --prot clear "$tmp/file" "$url/f"
check "--plain, anonymous" status_is 0
check "the file is there" same "$tmp/file" "$tmp/root/f"
run rftp put -q --plain "$tmp/file" "$url/f"
check "--plain without --prot clear: there is no key to protect it by" fails_with 3 '--prot clear'
for prot in safe private; do
	run rftp put -q --plain --prot $prot "$tmp/file" "$url/f"
	check "--plain --prot $prot" fails_with 3 '--prot clear'
done
# Without --plain TLS is had of the same server.
put --netrc "$tmp/netrc" "$tmp/file" "$url/tls"
check "without --plain the same server speaks TLS" status_is 0
check "and the password has not crossed in clear" never_said plain
check "which something else has" grep -aq 'AUTH TLS' "$tmp/plain.said"
stop_server

# An attacker in between that removes TLS gets nothing.
start_server tls --root "$tmp/root" --anonymous rw --users "$tmp/users"
through tls
run rftp put -q --plain --prot clear --netrc "$tmp/netrc" "$tmp/file" "$url/f2"
check "--plain at a server with TLS: 3" status_is 3
check "one line" said ''
check "the password has not crossed" never_said tls
check "and no file" test ! -e "$tmp/root/f2"
run rftp put -q --plain --prot clear "$tmp/file" "$url/f2"
check "--plain, anonymous, at a server with TLS" fails_with 3 'TLS'
check "and no file" test ! -e "$tmp/root/f2"

exec 7>&-
check "the server ends well" stops_well
finish

# shellcheck shell=bash
# Certificates for tests of clients that show one. Sourced after lib.sh.

# make_ca NAME: $tmp/NAME.pem and $tmp/NAME.key
make_ca() {
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$tmp/$1.key" \
		-out "$tmp/$1.pem" -subj "/CN=$1" -days 2 2>/dev/null
}

# make_cert NAME SUBJECT [CA]: $tmp/NAME.pem and $tmp/NAME.key; without CA it signs itself. days:
# how long it is good
make_cert() {
	local name=$1 subject=$2 ca=${3:-}
	if [ -z "$ca" ]; then
		openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes \
			-keyout "$tmp/$name.key" -out "$tmp/$name.pem" -subj "$subject" -days 2 2>/dev/null
	else
		openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes \
			-keyout "$tmp/$name.key" -out "$tmp/$name.csr" -subj "$subject" 2>/dev/null &&
			openssl x509 -req -in "$tmp/$name.csr" -CA "$tmp/$ca.pem" -CAkey "$tmp/$ca.key" \
				-CAcreateserial -out "$tmp/$name.pem" -days "${days:-1}" 2>/dev/null
	fi
	chmod 600 "$tmp/$name.key"
}

# pin_of NAME: as the log of a server and the map of certificates show it
pin_of() {
	printf 'SHA256:'
	openssl x509 -in "$tmp/$1.pem" -noout -pubkey | openssl pkey -pubin -outform DER |
		openssl dgst -sha256 -binary | base64 | tr -d =
}

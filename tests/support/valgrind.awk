# SPDX-License-Identifier: Apache-2.0
# What matters in the logs of valgrind --quiet --track-fds=yes: nothing when all is well.
# Left out are headings, descriptors that came from whoever started the program, and that
# valgrind does not know openat2 (437 everywhere), for which there is another way then.
# -v only=PID: descriptors and lost memory of that process alone.

{
	text = $0
	sub(/^(==|--)[0-9]+(==|--) ?/, "", text)
}

text ~ /^FILE DESCRIPTORS: / || text ~ /^ *$/ { next }

# A descriptor or lost memory, and below it where it was opened or allocated.
text ~ /^Open (file|AF_)/ || text ~ / lost in loss record / {
	opened = $0
	ours = !only || $1 == "==" only "=="
	next
}
opened != "" && text ~ /^   / {
	if (!ours || text ~ /<inherited from parent>/)
		next
	if (opened != told)
		print opened
	told = opened
	print
	next
}
{ opened = "" }

text ~ /unhandled .* syscall: 437$/ { advice = 4; next }
advice > 0 { advice--; next }

{ print }

#!/bin/sh
# The remote takes nothing.
mkdir -p remote.git/hooks
printf '#!/bin/sh\necho "no pushing on Fridays" >&2\nexit 1\n' >remote.git/hooks/pre-receive
chmod +x remote.git/hooks/pre-receive

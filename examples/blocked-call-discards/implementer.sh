#!/bin/sh
# It talks instead of answering.
cat >/dev/null
echo 'Sure! I have made all the changes you asked for.'

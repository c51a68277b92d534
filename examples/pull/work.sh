#!/bin/sh
# What somebody does by hand in the slice's folder: sh work.sh FOLDER
cd "$1"
echo 'echo "Goodbye, $1!"' >bye.sh
echo 'test "$(sh bye.sh Ada)" = "Goodbye, Ada!"' >tests/bye.sh

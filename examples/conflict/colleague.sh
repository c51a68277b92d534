#!/bin/sh
# What happens on main while the slice is at work.
cd "$(dirname "$0")/repository"
grep -q Edsger names.txt && exit
echo Edsger >>names.txt
git -c user.name=Colleague -c user.email=colleague@example.org commit --quiet --all --message='Add Edsger'

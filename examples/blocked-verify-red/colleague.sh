#!/bin/sh
# What happens on main while the slice is at work. Both merge without a conflict.
cd "$(dirname "$0")/repository"
grep -q Hi greet.sh && exit
sed -i 's/Hello/Hi/' greet.sh tests/greet.sh
git -c user.name=Colleague -c user.email=colleague@example.org commit --quiet --all --message='Say Hi'

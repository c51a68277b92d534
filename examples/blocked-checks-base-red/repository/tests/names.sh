grep -q '^Grace$' names.txt

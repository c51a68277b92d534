# Greets the person that it is told.
echo "Hello, $1!"

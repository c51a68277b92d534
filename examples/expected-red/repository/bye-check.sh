test "$(sh bye.sh Ada)" = 'Goodbye, Ada!'

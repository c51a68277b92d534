// Command interlock is the command line: it starts slices, follows them, and
// shows what they left behind.
package main

import (
	"os"

	"interlock/activities/process"
)

func main() {
	process.Main()
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

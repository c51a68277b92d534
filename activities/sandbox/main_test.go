package sandbox

import (
	"os"
	"testing"

	"interlock/activities/process"
)

func TestMain(m *testing.M) {
	process.Main()
	os.Exit(m.Run())
}

package interlock_test

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"interlock/slice"
)

const composeFile = "docker-compose.temporal.yml"

type compose struct {
	Services map[string]struct {
		Image      string
		Ports      []string
		Volumes    []string
		Command    []string
		DependsOn  map[string]struct{ Condition string } `yaml:"depends_on"`
		Entrypoint []string
	}
	Volumes map[string]any
}

func readCompose(t *testing.T) compose {
	t.Helper()
	b, err := os.ReadFile(composeFile)
	require.NoError(t, err)
	var c compose
	require.NoError(t, yaml.Unmarshal(b, &c))
	return c
}

func TestComposeRegistersEverySearchAttribute(t *testing.T) {
	script := strings.Join(readCompose(t).Services["bootstrap"].Command, "\n")
	got := map[string]string{}
	for _, m := range regexp.MustCompile(`--name (\w+) --type (\w+)`).FindAllStringSubmatch(script, -1) {
		got[m[1]] = m[2]
	}
	require.Equal(t, slice.Attributes(), got)
	require.Contains(t, script, "--retention 30d")
}

func TestComposeIsReachedFromThisMachineOnly(t *testing.T) {
	for name, s := range readCompose(t).Services {
		for _, p := range s.Ports {
			require.True(t, strings.HasPrefix(p, "127.0.0.1:"), "%s publishes %s", name, p)
		}
		require.NotContains(t, s.Image, "auto-setup", name)
	}
}

func TestComposeKeepsItsDataAndFindsItsFiles(t *testing.T) {
	c := readCompose(t)
	for name, s := range c.Services {
		for _, v := range s.Volumes {
			source, _, _ := strings.Cut(v, ":")
			if strings.HasPrefix(source, "./") {
				require.FileExists(t, source, name)
				continue
			}
			require.Contains(t, c.Volumes, source, "%s mounts a volume without a name", name)
		}
		for on, d := range s.DependsOn {
			require.Contains(t, c.Services, on, name)
			require.NotEmpty(t, d.Condition, "%s waits for %s without a condition", name, on)
		}
	}
}

// The scripts are written for a shell that compose hands $$ as $.
func TestComposeScriptsParse(t *testing.T) {
	for name, s := range readCompose(t).Services {
		if len(s.Command) == 0 {
			continue
		}
		require.Equal(t, []string{"/bin/sh", "-euc"}, s.Entrypoint, name)
		out, err := exec.Command("/bin/sh", "-n", "-c", strings.ReplaceAll(s.Command[0], "$$", "$")).CombinedOutput()
		require.NoError(t, err, "%s: %s", name, out)
	}
}

func TestComposeConfig(t *testing.T) {
	if exec.Command("docker", "compose", "version").Run() != nil {
		t.Skip("docker compose is not here")
	}
	out, err := exec.Command("docker", "compose", "-f", composeFile, "config", "-q").CombinedOutput()
	require.NoError(t, err, "%s", out)
}

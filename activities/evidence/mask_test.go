package evidence

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"interlock/activities/process"
)

func TestMaskerReplaces(t *testing.T) {
	for _, c := range []struct {
		name    string
		secrets []string
		in, out string
	}{
		{"nothing known", nil, "a secret", "a secret"},
		{"in the middle", []string{"abcdef"}, "x abcdef y", "x *** y"},
		{"twice", []string{"abcdef"}, "abcdefabcdef", "******"},
		{"too short", []string{"abcde"}, "abcde", "abcde"},
		{"empty", []string{""}, "abc", "abc"},
		{"the longest", []string{"abcdef", "abcdefgh"}, "abcdefgh abcdefg", "*** ***g"},
		{"overlapping", []string{"abcdef", "defghi"}, "abcdefghi", "***"},
		{"one inside the other's end", []string{"aaaaaa"}, "aaaaaaaa", "***"},
		{"spaces around the value", []string{" abcdef\n"}, "abcdef", "***"},
		{"stars are no secret", []string{"******"}, "******", "******"},
		{"lines of a key", []string{"-----BEGIN KEY-----\nMIIEvQIBADANBgkqhki\nshort\n"}, "got MIIEvQIBADANBgkqhki!", "got ***!"},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.out, NewMasker(c.secrets...).String(c.in))
		})
	}
	require.Equal(t, "abcdef", (*Masker)(nil).String("abcdef"))
}

func TestMaskerKnowsOtherSpellings(t *testing.T) {
	secret := "p\"a/s<s w+\\örd\nline"
	quoted, err := json.Marshal(secret)
	require.NoError(t, err)
	m := NewMasker(secret)
	for name, spelling := range map[string]string{
		"JSON":       strings.Trim(string(quoted), `"`),
		"JSON, bare": `p\"a/s<s w+\\örd\nline`,
		"query":      url.QueryEscape(secret),
		"path":       url.PathEscape(secret),
		"base64":     base64.StdEncoding.EncodeToString([]byte(secret)),
		"base64 url": base64.RawURLEncoding.EncodeToString([]byte(secret)),
	} {
		require.Equal(t, "<***>", m.String("<"+spelling+">"), name)
	}
}

// masked is what Masker must do, in the plainest way.
func masked(secrets []string, p []byte) []byte {
	cover := make([]bool, len(p))
	begin := make([]bool, len(p))
	for i := range p {
		for _, s := range secrets {
			if len(s) >= leastSecret && bytes.HasPrefix(p[i:], []byte(s)) {
				begin[i] = true
				for j := range s {
					cover[i+j] = true
				}
			}
		}
	}
	var out []byte
	end := 0
	for i := range p {
		if begin[i] && i >= end {
			out = append(out, "***"...)
		}
		for _, s := range secrets {
			if len(s) >= leastSecret && bytes.HasPrefix(p[i:], []byte(s)) {
				end = max(end, i+len(s))
			}
		}
		if !cover[i] {
			out = append(out, p[i])
		}
	}
	return out
}

func TestStreamMasksAcrossChunks(t *testing.T) {
	word := rapid.StringMatching(`[ab]{4,9}`)
	rapid.Check(t, func(t *rapid.T) {
		secrets := rapid.SliceOfN(word, 0, 4).Draw(t, "secrets")
		text := []byte(rapid.StringMatching(`[ab.]{0,80}`).Draw(t, "text"))
		m := &Masker{}
		for _, s := range secrets {
			m.add(s)
		}
		for i := range m.needles {
			sortLongestFirst(m.needles[i])
		}

		var got bytes.Buffer
		s := m.Stream(&got)
		for rest := text; len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "chunk")
			_, err := s.Write(rest[:n])
			require.NoError(t, err)
			rest = rest[n:]
		}
		require.NoError(t, s.Close())
		require.Equal(t, string(masked(secrets, text)), got.String())
	})
}

func TestOutputMasksASecretThatIsCutInTwo(t *testing.T) {
	secret := "0123456789"
	m := NewMasker(secret)
	for k := 1; k < len(secret); k++ {
		o := m.Output(process.Output{
			Head: []byte("head " + secret + secret[:k]),
			Tail: []byte(secret[k:] + " tail " + secret),
			Size: 1000,
		})
		require.Equal(t, "head ***", string(o.Head))
		require.Equal(t, " tail ***", string(o.Tail))
		require.Equal(t, int64(1000-len("head ")-len(" tail ")-2*len(secret)), o.LeftOut())
	}
	whole := m.Output(process.Output{Head: []byte("a " + secret), Size: 12})
	require.Equal(t, "a ***", whole.String())
	require.Zero(t, whole.LeftOut())
}

func TestSecrets(t *testing.T) {
	for _, c := range []struct {
		env     string
		secrets []string
	}{
		{"GITHUB_TOKEN=abcdef", []string{"abcdef"}},
		{"ANTHROPIC_API_KEY=sk-1", []string{"sk-1"}},
		{"api_key=x", []string{"x"}},
		{"MYSQL_PWD=x", []string{"x"}},
		{"NPM_CONFIG__AUTH=x", []string{"x"}},
		{"DB_PASSWORD=x", []string{"x"}},
		{"PWD=/home", nil},
		{"GIT_AUTHOR_NAME=Ann Author", nil},
		{"KEYBOARD=us", nil},
		{"MAX_OUTPUT_TOKENS=32000", nil},
		{"GOFLAGS=-mod=mod", nil},
		{"GOPROXY=https://me:s3cret%21@proxy.example/go,direct", []string{"s3cret!", "s3cret%21"}},
		{"HTTPS_PROXY=http://proxy.example:3128", nil},
		{"REMOTE=https://ghp_0123456789abcdef@example.com/x", []string{"ghp_0123456789abcdef"}},
		{"REMOTE=ssh://git@example.com/x", nil},
	} {
		require.Equal(t, c.secrets, Secrets([]string{c.env}), c.env)
	}
}

func TestEnvironmentIsBuiltFromNothing(t *testing.T) {
	worker := map[string]string{"PATH": "/bin:.:rel::/opt/x", "HOME": "/home/me", "AWS_SECRET_ACCESS_KEY": "s", "EMPTY": "", "LD_PRELOAD": "/evil.so"}
	lookup := func(name string) (string, bool) { v, ok := worker[name]; return v, ok }

	require.Equal(t,
		[]string{"AWS_SECRET_ACCESS_KEY=s", "EMPTY=", "HOME=/slice", "PATH=/bin:/opt/x"},
		Environment([]string{"HOME=/slice"}, []string{"HOME", "AWS_SECRET_ACCESS_KEY", "EMPTY", "MISSING", "EMPTY", "PATH"}, lookup))
	require.Equal(t, []string{"PATH=/usr/local/bin:/usr/bin:/bin"}, Environment(nil, nil, func(string) (string, bool) { return "", false }))
}

func FuzzMasker(f *testing.F) {
	f.Add("secret-value", "before secret-value after")
	f.Fuzz(func(t *testing.T, secret, text string) {
		m := NewMasker(secret)
		got := m.String(text)
		if secret = strings.TrimSpace(secret); len(secret) >= leastSecret && !strings.Contains(secret, "*") {
			require.NotContains(t, got, secret)
		}
	})
}

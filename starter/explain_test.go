package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func explainFile(t *testing.T, out string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "out")
	require.NoError(t, os.WriteFile(file, []byte(out), 0o600))
	var o, e strings.Builder
	args = append([]string{"explain", "--home", t.TempDir(), "--stdout", file}, args...)
	code = run(args, strings.NewReader(""), &o, &e)
	return code, o.String(), e.String()
}

func TestExplain(t *testing.T) {
	const limit = `{"type":"system","subtype":"init","session_id":"s-1","model":"claude-sonnet-5-5"}
{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":1796066755}}
{"type":"result","session_id":"s-1","subtype":"success","is_error":true,"terminal_reason":"api_error","api_error":"usage_limit_reached","api_error_status":429,"result":"words","model_usage_since_last_result":{}}
`
	code, stdout, _ := explainFile(t, limit, "--agent", "claude", "--exit-code", "1", "--output", "json")
	require.Zero(t, code)
	require.JSONEq(t, `{"class":"limit","reset_at":"2026-11-30T19:25:55Z","wait":null,"cost_micro_usd":0,"tokens":{"input":0,"cached":0,"output":0},"session":"s-1","model":"","answer":null,"reason":"words"}`, stdout)

	code, stdout, _ = explainFile(t, limit, "--agent", "claude", "--exit-code", "1")
	require.Zero(t, code)
	require.Contains(t, stdout, "reset at  2026-11-30T19:25:55Z")

	answer := `{"status":"done","cost_usd":0.25}`
	code, stdout, _ = explainFile(t, answer, "--agent", "command", "--exit-code", "0", "--role", "implementer", "--output", "json")
	require.Zero(t, code)
	var doc struct {
		Class        string          `json:"class"`
		CostMicroUSD int64           `json:"cost_micro_usd"`
		Answer       json.RawMessage `json:"answer"`
	}
	require.NoError(t, json.Unmarshal([]byte(stdout), &doc))
	require.Equal(t, "answered", doc.Class)
	require.Equal(t, int64(250_000), doc.CostMicroUSD)
	require.JSONEq(t, answer, string(doc.Answer))

	for want, args := range map[string][]string{
		`no agent program "telepathy"`: {"--agent", "telepathy", "--exit-code", "0"},
		`no role "priest"`:             {"--agent", "claude", "--exit-code", "0", "--role", "priest"},
		"--exit-code 999":              {"--agent", "claude", "--exit-code", "999"},
		`"exit-code" not set`:          {"--agent", "claude"},
		"--stderr: ":                   {"--agent", "claude", "--exit-code", "0", "--stderr", "/nowhere"},
		`--at "noon"`:                  {"--agent", "claude", "--exit-code", "0", "--at", "noon"},
	} {
		code, _, stderr := explainFile(t, "", args...)
		require.Equal(t, exitUsage, code, stderr)
		require.Contains(t, stderr, want)
	}
}

package agent

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"interlock/slice"
)

func lines(events ...string) []byte { return []byte(strings.Join(events, "\n") + "\n") }

const (
	claudeInit = `{"type":"system","subtype":"init","session_id":"s-1","model":"claude-sonnet-5-5"}`
	codexBegin = `{"type":"thread.started","thread_id":"01a22d85-d4ee-7943-84d2-40a22e6718cf"}` + "\n" + `{"type":"turn.started"}`
	geminiInit = `{"type":"init","session_id":"s-1","model":"gemini-2.5-pro"}`
)

func claudeResult(members string) string {
	return `{"type":"result","session_id":"s-1","model_usage_since_last_result":{"claude-sonnet-5-5":{"inputTokens":10,"outputTokens":1,"costUSD":0.5}},` + members + `}`
}

func claudeFailure(status, apiError, word, terminal string) []byte {
	return lines(claudeInit,
		fmt.Sprintf(`{"type":"assistant","message":{"model":"<synthetic>"},"error":%q,"is_api_error_message":true}`, word),
		claudeResult(fmt.Sprintf(`"subtype":"success","is_error":true,"terminal_reason":%q,"api_error_status":%s,"api_error":%s,"result":"words"`, terminal, status, apiError)))
}

func codexFailure(message string) []byte {
	text, _ := json.Marshal(message)
	return lines(codexBegin, fmt.Sprintf(`{"type":"turn.failed","error":{"message":%s}}`, text))
}

func geminiFailure(message string) []byte {
	text, _ := json.Marshal("[API Error: " + message + "]\nPlease wait.")
	return lines(geminiInit, fmt.Sprintf(`{"type":"result","status":"error","error":{"type":"unknown","message":%s},"stats":{}}`, text))
}

func opencodeFailure(name string, members string) []byte {
	return lines(fmt.Sprintf(`{"type":"error","sessionID":"ses_1","error":{"name":%q,"data":{"message":"words"%s}}}`, name, members))
}

// Every kind of failure, for every program.
func TestFailuresOfEveryProgram(t *testing.T) {
	for _, c := range []struct {
		name  string
		use   slice.Adapter
		exit  int
		out   []byte
		err   string
		class Class
		wait  time.Duration
	}{
		{"limit", slice.AdapterClaude, 1, claudeFailure("429", `"usage_limit_reached"`, "rate_limit", "api_error"), "", Limit, 0},
		{"rate", slice.AdapterClaude, 1, claudeFailure("429", "null", "rate_limit", "api_error"), "", Transient, 0},
		{"500", slice.AdapterClaude, 1, claudeFailure("500", "null", "server_error", "api_error"), "", Transient, 0},
		{"529", slice.AdapterClaude, 1, claudeFailure("529", "null", "overloaded", "api_error"), "", Transient, 0},
		{"network", slice.AdapterClaude, 1, claudeFailure("null", `"connection_failed"`, "server_error", "api_error"), "", Transient, 0},
		{"garbage", slice.AdapterClaude, 1, claudeFailure("null", "null", "unknown", "api_error"), "", Transient, 0},
		{"an error that nobody knows", slice.AdapterClaude, 1, claudeFailure("null", `"moon_phase"`, "moon_phase", "api_error"), "", Transient, 0},
		{"401", slice.AdapterClaude, 1, claudeFailure("401", "null", "authentication_failed", "api_error"), "", Fatal, 0},
		{"401 without its word", slice.AdapterClaude, 1, claudeFailure("401", "null", "", "api_error"), "", Fatal, 0},
		{"no login", slice.AdapterClaude, 1, claudeFailure("null", "null", "authentication_failed", "api_error"), "", Fatal, 0},
		{"billing", slice.AdapterClaude, 1, claudeFailure("400", "null", "billing_error", "api_error"), "", Fatal, 0},
		{"model", slice.AdapterClaude, 1, claudeFailure("404", "null", "model_not_found", "api_error"), "", Fatal, 0},
		{"400", slice.AdapterClaude, 1, claudeFailure("400", "null", "invalid_request", "api_error"), "", Fatal, 0},
		{"context", slice.AdapterClaude, 1, claudeFailure("400", "null", "invalid_request", "prompt_too_long"), "", Context, 0},
		{"too large", slice.AdapterClaude, 1, claudeFailure("413", "null", "invalid_request", "image_error"), "", Context, 0},
		{"413 alone", slice.AdapterClaude, 1, claudeFailure("413", "null", "invalid_request", "api_error"), "", Context, 0},
		{"output too long", slice.AdapterClaude, 1, claudeFailure("null", `"max_output_tokens"`, "max_output_tokens", "api_error"), "", Discarded, 0},
		{"refusal", slice.AdapterClaude, 1, lines(claudeInit, claudeResult(`"subtype":"success","is_error":true,"terminal_reason":"api_error","stop_reason":"refusal","result":"no"`)), "", Discarded, 0},
		{"budget", slice.AdapterClaude, 1, lines(claudeInit, claudeResult(`"subtype":"error_max_budget_usd","is_error":true,"terminal_reason":"budget_exhausted","errors":["x"]`)), "", Budget, 0},
		{"turns", slice.AdapterClaude, 1, lines(claudeInit, claudeResult(`"subtype":"error_max_turns","is_error":true,"terminal_reason":"max_turns"`)), "", Budget, 0},
		{"schema", slice.AdapterClaude, 1, lines(claudeInit, claudeResult(`"subtype":"error_max_structured_output_retries","is_error":true,"terminal_reason":"structured_output_retry_exhausted"`)), "", Discarded, 0},
		{"interrupted", slice.AdapterClaude, 0, lines(claudeInit, claudeResult(`"subtype":"error_during_execution","is_error":true,"terminal_reason":"aborted_tools"`)), "", Unanswered, 0},
		{"SIGINT while it waits", slice.AdapterClaude, 0, lines(claudeInit), "", Unanswered, 0},
		{"SIGKILL", slice.AdapterClaude, 137, lines(claudeInit), "", Unanswered, 0},
		{"killed at once", slice.AdapterClaude, 143, nil, "", Unanswered, 0},
		{"killed after a result", slice.AdapterClaude, 143, lines(claudeInit, claudeResult(`"subtype":"success","is_error":false,"terminal_reason":"completed","result":"done"`)), "", Unanswered, 0},
		{"usage", slice.AdapterClaude, 1, nil, "error: unknown option '--x'\n", Fatal, 0},
		{"session", slice.AdapterClaude, 1, lines(`{"type":"result","subtype":"error_during_execution","is_error":true,"session_id":"s-1","errors":["No conversation found with session ID: s-1"]}`), "", Fatal, 0},
		{"empty", slice.AdapterClaude, 0, lines(claudeInit, claudeResult(`"subtype":"success","is_error":false,"terminal_reason":"completed","result":" "`)), "", Discarded, 0},
		{"auto mode", slice.AdapterClaude, 1, lines(claudeInit, claudeResult(`"subtype":"success","is_error":false,"terminal_reason":"completed","result":"done"`)), "Exiting with code 1.\n", Discarded, 0},
		{"an ending that nobody knows", slice.AdapterClaude, 0, lines(claudeInit, claudeResult(`"subtype":"success","is_error":false,"terminal_reason":"ascended","result":"done"`)), "", Discarded, 0},
		{"a kind of result that nobody knows", slice.AdapterClaude, 0, lines(claudeInit, claudeResult(`"subtype":"error_of_tomorrow","is_error":false,"result":"done"`)), "", Discarded, 0},
		{"no word of an error", slice.AdapterClaude, 0, lines(claudeInit, claudeResult(`"subtype":"success","terminal_reason":"completed","result":"done"`)), "", Discarded, 0},
		{"nothing at all", slice.AdapterClaude, 0, nil, "", Discarded, 0},

		{"limit", slice.AdapterCodex, 1, codexFailure("You’ve hit your usage limit. Visit x or try again later."), "", Limit, 0},
		{"limit, older", slice.AdapterCodex, 1, codexFailure("You've hit your usage limit. Try again later."), "", Limit, 0},
		{"billing", slice.AdapterCodex, 1, codexFailure("Quota exceeded. Check your plan and billing details."), "", Fatal, 0},
		{"plan", slice.AdapterCodex, 1, codexFailure("To use Codex with your ChatGPT plan, upgrade to Plus: x."), "", Fatal, 0},
		{"rate", slice.AdapterCodex, 1, codexFailure("rate limit exceeded: Rate limit reached for gpt-5.5. Please try again in 2.5s."), "", Transient, 2500 * time.Millisecond},
		{"a long rate", slice.AdapterCodex, 1, codexFailure("rate limit exceeded: Rate limit reached for gpt-5.5. Please try again in 1h30m."), "", Limit, 90 * time.Minute},
		{"429", slice.AdapterCodex, 1, codexFailure("exceeded retry limit, last status: 429 Too Many Requests"), "", Transient, 0},
		{"401", slice.AdapterCodex, 1, codexFailure("unexpected status 401 Unauthorized: no, url: u"), "", Fatal, 0},
		{"403", slice.AdapterCodex, 1, codexFailure("unexpected status 403 Forbidden: no, url: u"), "", Fatal, 0},
		{"502", slice.AdapterCodex, 1, codexFailure("unexpected status 502 Bad Gateway: You’ve hit your usage limit"), "", Transient, 0},
		{"no key", slice.AdapterCodex, 1, codexFailure("Missing environment variable: `K`."), "", Fatal, 0},
		{"model", slice.AdapterCodex, 1, codexFailure("The model `nope` does not exist"), "", Fatal, 0},
		{"400", slice.AdapterCodex, 1, codexFailure(`{"error":{"message":"Invalid value","type":"invalid_request_error","code":"invalid_value"}}`), "", Fatal, 0},
		{"context", slice.AdapterCodex, 1, codexFailure("Codex ran out of room in the model's context window. Start a new thread."), "", Context, 0},
		{"context, as the provider says it", slice.AdapterCodex, 1, codexFailure(`{"error":{"type":"invalid_request_error","code":"context_length_exceeded"}}`), "", Context, 0},
		{"overloaded", slice.AdapterCodex, 1, codexFailure("Selected model is at capacity. Please try a different model."), "", Transient, 0},
		{"500", slice.AdapterCodex, 1, codexFailure("We’re currently experiencing high demand, which may cause temporary errors."), "", Transient, 0},
		{"garbage", slice.AdapterCodex, 1, codexFailure("stream disconnected before completion: You’ve hit your usage limit"), "", Transient, 0},
		{"incomplete", slice.AdapterCodex, 1, codexFailure("Incomplete response returned, reason: max_output_tokens"), "", Discarded, 0},
		{"budget", slice.AdapterCodex, 1, codexFailure("budget reached"), "", Budget, 0},
		{"an error that nobody knows", slice.AdapterCodex, 1, codexFailure("the moon is full"), "", Transient, 0},
		{"no network, killed", slice.AdapterCodex, -1, lines(codexBegin, `{"type":"error","message":"Reconnecting... waiting for network (x)"}`), "", Transient, 0},
		{"killed later", slice.AdapterCodex, -1, lines(codexBegin, `{"type":"error","message":"Reconnecting... 1/5 (x)"}`, `{"type":"item.completed","item":{"type":"agent_message","text":"x"}}`), "", Unanswered, 0},
		{"SIGINT", slice.AdapterCodex, 1, lines(codexBegin, `{"type":"item.started","item":{"type":"command_execution"}}`), "", Unanswered, 0},
		{"usage", slice.AdapterCodex, 2, nil, "error: unexpected argument '-x' found\n", Fatal, 0},
		{"session", slice.AdapterCodex, 1, nil, "Error: thread/resume: thread/resume failed: no rollout found for thread id x (code -32600)\n", Fatal, 0},
		{"empty", slice.AdapterCodex, 0, lines(codexBegin, `{"type":"turn.completed","usage":{"input_tokens":1,"output_tokens":1}}`), "", Discarded, 0},
		{"a second turn without an end", slice.AdapterCodex, 0, lines(codexBegin, `{"type":"item.completed","item":{"type":"agent_message","text":"x"}}`, `{"type":"turn.completed"}`, `{"type":"turn.started"}`), "", Unanswered, 0},

		{"day", slice.AdapterGemini, 173, geminiFailure("You have exhausted your daily quota on this model."), "", Limit, 0},
		{"hour", slice.AdapterGemini, 173, geminiFailure("You exceeded your current quota. Please retry in 3600s.\nSuggested retry after 3600s."), "", Limit, time.Hour},
		{"capacity", slice.AdapterGemini, 173, geminiFailure("You have exhausted your capacity on this model. Your quota will reset after 2h3m4s."), "", Limit, 2*time.Hour + 3*time.Minute + 4*time.Second},
		{"minute", slice.AdapterGemini, 173, geminiFailure("You exceeded your current quota. Please retry in 5.07s."), "", Transient, 5070 * time.Millisecond},
		{"429", slice.AdapterGemini, 173, geminiFailure("Resource has been exhausted (e.g. check quota)."), "", Transient, 0},
		{"401", slice.AdapterGemini, 145, geminiFailure(`{"error":{"code":401,"message":"no","status":"UNAUTHENTICATED"}}`), "", Fatal, 0},
		{"403", slice.AdapterGemini, 147, geminiFailure(`{"error":{"code":403,"message":"no","status":"PERMISSION_DENIED"}}`), "", Fatal, 0},
		{"bad key", slice.AdapterGemini, 144, geminiFailure(`{"error":{"code":400,"message":"API key not valid."}}`), "", Fatal, 0},
		{"context", slice.AdapterGemini, 144, geminiFailure(`{"error":{"code":400,"message":"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."}}`), "", Context, 0},
		{"model", slice.AdapterGemini, 1, geminiFailure("models/nope is not found for API version v1beta"), "", Fatal, 0},
		{"500", slice.AdapterGemini, 244, geminiFailure("An internal error has occurred."), "", Transient, 0},
		{"503", slice.AdapterGemini, 247, geminiFailure("The model is overloaded."), "", Transient, 0},
		{"504", slice.AdapterGemini, 248, geminiFailure("Deadline exceeded."), "", Transient, 0},
		{"network", slice.AdapterGemini, 1, geminiFailure("exception TypeError: fetch failed sending request"), "", Transient, 0},
		{"garbage", slice.AdapterGemini, 1, geminiFailure("Incomplete JSON segment at the end"), "", Transient, 0},
		{"turns", slice.AdapterGemini, 53, geminiFailure("Reached max session turns for this session."), "", Budget, 0},
		{"no login", slice.AdapterGemini, 41, nil, "warning\n{\n  \"session_id\": \"s-1\",\n  \"error\": {\n    \"type\": \"Error\",\n    \"message\": \"you must specify the GEMINI_API_KEY\",\n    \"code\": 41\n  }\n}\n", Fatal, 0},
		{"untrusted", slice.AdapterGemini, 55, nil, "not running in a trusted directory\n", Fatal, 0},
		{"session", slice.AdapterGemini, 42, nil, "Error resuming session: Invalid session identifier \"x\".\n", Fatal, 0},
		{"SIGTERM", slice.AdapterGemini, 0, lines(geminiInit), "", Unanswered, 0},
		{"SIGKILL, written later", slice.AdapterGemini, 137, lines(geminiInit, `{"type":"message","role":"assistant","content":"done"}`, `{"type":"result","status":"success"}`), "", Unanswered, 0},
		{"empty", slice.AdapterGemini, 0, lines(geminiInit, `{"type":"result","status":"error","stats":{}}`), "", Discarded, 0},
		{"an ending that nobody knows", slice.AdapterGemini, 0, lines(geminiInit, `{"type":"message","role":"assistant","content":"done"}`, `{"type":"result","status":"ascended"}`), "", Discarded, 0},

		{"rate", slice.AdapterOpencode, 1, opencodeFailure("APIError", `,"statusCode":429,"isRetryable":true,"responseHeaders":{"retry-after":"2"}`), "", Transient, 2 * time.Second},
		{"limit", slice.AdapterOpencode, 1, opencodeFailure("APIError", `,"statusCode":429,"responseHeaders":{"Retry-After":"3600"}`), "", Limit, time.Hour},
		{"429", slice.AdapterOpencode, 1, opencodeFailure("APIError", `,"statusCode":429`), "", Transient, 0},
		{"quota", slice.AdapterOpencode, 1, opencodeFailure("APIError", `,"statusCode":429,"responseBody":"{\"error\":{\"code\":\"insufficient_quota\"}}"`), "", Limit, 0},
		{"401", slice.AdapterOpencode, 1, opencodeFailure("APIError", `,"statusCode":401`), "", Fatal, 0},
		{"400", slice.AdapterOpencode, 1, opencodeFailure("APIError", `,"statusCode":400`), "", Fatal, 0},
		{"404", slice.AdapterOpencode, 1, opencodeFailure("APIError", `,"statusCode":404`), "", Fatal, 0},
		{"500", slice.AdapterOpencode, 1, opencodeFailure("APIError", `,"statusCode":500,"isRetryable":true`), "", Transient, 0},
		{"network", slice.AdapterOpencode, 1, opencodeFailure("APIError", `,"isRetryable":true`), "", Transient, 0},
		{"context", slice.AdapterOpencode, 1, opencodeFailure("ContextOverflowError", ``), "", Context, 0},
		{"login", slice.AdapterOpencode, 1, opencodeFailure("ProviderAuthError", ``), "", Fatal, 0},
		{"model", slice.AdapterOpencode, 1, opencodeFailure("ProviderModelNotFoundError", ``), "", Fatal, 0},
		{"an error that nobody knows", slice.AdapterOpencode, 1, opencodeFailure("MoonError", ``), "", Transient, 0},
		{"an error without anything", slice.AdapterOpencode, 1, lines(`{"type":"error","sessionID":"ses_1"}`), "", Transient, 0},
		{"garbage, killed", slice.AdapterOpencode, -1, lines(`{"type":"step_finish","sessionID":"ses_1","part":{"reason":"unknown","cost":0}}`), "", Transient, 0},
		{"refused a permission", slice.AdapterOpencode, 0, lines(`{"type":"text","sessionID":"ses_1","part":{"text":"x"}}`, `{"type":"step_finish","sessionID":"ses_1","part":{"reason":"tool-calls","cost":0.1}}`), "", Discarded, 0},
		{"cut off", slice.AdapterOpencode, 0, lines(`{"type":"text","sessionID":"ses_1","part":{"text":"x"}}`, `{"type":"step_finish","sessionID":"ses_1","part":{"reason":"length","cost":0.1}}`), "", Discarded, 0},
		{"SIGTERM", slice.AdapterOpencode, 143, lines(`{"type":"step_start","sessionID":"ses_1"}`), "", Unanswered, 0},
		{"no end", slice.AdapterOpencode, 0, lines(`{"type":"step_start","sessionID":"ses_1"}`, `{"type":"text","sessionID":"ses_1","part":{"text":"x"}}`), "", Unanswered, 0},
		{"session", slice.AdapterOpencode, 1, nil, "\x1b[91m\x1b[1mError: \x1b[0mSession not found\n", Fatal, 0},
		{"empty", slice.AdapterOpencode, 0, lines(`{"type":"step_finish","sessionID":"ses_1","part":{"reason":"stop","cost":0.1}}`), "", Discarded, 0},

		{"answer", slice.AdapterCommand, 0, []byte(`{"status":"done","cost_usd":0.1}`), "", Answered, 0},
		{"words", slice.AdapterCommand, 0, []byte(`done`), "", Discarded, 0},
		{"limit", slice.AdapterCommand, 1, []byte(`{"limit":{"retry_after":90}}`), "", Limit, 90 * time.Second},
		{"failed", slice.AdapterCommand, 3, []byte(`{"status":"done"}`), "no\n", Discarded, 0},
		{"not there", slice.AdapterCommand, 127, nil, "not found\n", Fatal, 0},
		{"too late", slice.AdapterCommand, 124, nil, "", Unanswered, 0},
	} {
		t.Run(string(c.use)+"/"+c.name, func(t *testing.T) {
			e, err := Explain(c.use, Printed{Stdout: c.out, Stderr: []byte(c.err), ExitCode: c.exit})
			require.NoError(t, err)
			require.Equal(t, c.class, e.Class, e.Reason)
			require.Equal(t, c.wait, e.Wait)
			require.Equal(t, c.name == "session", e.SessionLost)
			require.Equal(t, c.class == Answered, e.Reason == "")
		})
	}
}

func TestExplainRefusesWhatItDoesNotKnow(t *testing.T) {
	_, err := Explain("telepathy", Printed{})
	require.ErrorContains(t, err, `"telepathy"`)
	_, err = Explain(slice.AdapterClaude, Printed{Role: "priest"})
	require.ErrorContains(t, err, `"priest"`)
}

// succeeds is a run of a program that ends well, with this message of the model.
func succeeds(use slice.Adapter, message string) Printed {
	text, err := json.Marshal(message)
	if err != nil {
		panic(err)
	}
	switch use {
	case slice.AdapterClaude:
		return Printed{Stdout: lines(claudeInit,
			fmt.Sprintf(`{"type":"assistant","parent_tool_use_id":null,"message":{"model":"claude-sonnet-5-5","content":[{"type":"text","text":%s}]}}`, text),
			fmt.Sprintf(`{"type":"user","message":{"content":[{"type":"tool_result","content":%s}]}}`, text),
			claudeResult(fmt.Sprintf(`"subtype":"success","is_error":false,"terminal_reason":"completed","result":%s`, text)))}
	case slice.AdapterCodex:
		return Printed{Stdout: lines(codexBegin,
			fmt.Sprintf(`{"type":"item.completed","item":{"type":"command_execution","aggregated_output":%s}}`, text),
			fmt.Sprintf(`{"type":"item.completed","item":{"type":"agent_message","text":%s}}`, text),
			`{"type":"turn.completed","usage":{"input_tokens":10,"cached_input_tokens":5,"output_tokens":1}}`)}
	case slice.AdapterGemini:
		return Printed{Stdout: lines(geminiInit,
			fmt.Sprintf(`{"type":"tool_result","status":"error","output":%s,"error":{"type":"x","message":%s}}`, text, text),
			fmt.Sprintf(`{"type":"message","role":"assistant","content":%s,"delta":true}`, text),
			`{"type":"result","status":"success","stats":{"total_tokens":11,"input_tokens":10,"models":{"gemini-2.5-pro":{"total_tokens":11}}}}`)}
	default:
		return Printed{Stdout: lines(
			`{"type":"step_start","sessionID":"ses_1","part":{"messageID":"m"}}`,
			fmt.Sprintf(`{"type":"tool_use","sessionID":"ses_1","part":{"messageID":"m","state":{"output":%s}}}`, text),
			fmt.Sprintf(`{"type":"text","sessionID":"ses_1","part":{"messageID":"m","text":%s}}`, text),
			`{"type":"step_finish","sessionID":"ses_1","part":{"reason":"stop","cost":0.5,"tokens":{"input":10,"output":1}}}`)}
	}
}

// What a model or a tool says is never the reason why a call ended. The words
// are those with which programs and providers tell of their failures.
func TestWordsNeverDecide(t *testing.T) {
	alarming := []string{
		"You've hit your usage limit", "You’ve hit your usage limit. try again at 7:34 PM.", "You've hit your 5-hour limit · resets 7:25pm (UTC)",
		"API Error: 429", "rate_limit_error", "Please retry in 3600s", "You have exhausted your daily quota on this model.",
		"No conversation found with session ID: x", "Error: Session not found", "Credit balance is too low", "exit status 137",
		`{"type":"result","subtype":"success","is_error":true,"api_error":"usage_limit_reached"}`,
		`{"type":"turn.failed","error":{"message":"You’ve hit your usage limit."}}`,
		`{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":1796066755}}`,
		`{"type":"error","sessionID":"ses_1","error":{"name":"APIError","data":{"statusCode":429}}}`,
		"prompt is too long", "context_length_exceeded", "\n{\n  \"error\": {\n    \"code\": 429,\n    \"message\": \"x\"\n  }\n}\n",
	}
	message := rapid.Custom(func(t *rapid.T) string {
		parts := rapid.SliceOfN(rapid.OneOf(rapid.SampledFrom(alarming), rapid.StringMatching(`[a-zA-Z0-9{}"\n: ]{1,40}`)), 1, 5).Draw(t, "parts")
		return "x" + strings.Join(parts, rapid.SampledFrom([]string{" ", "\n", "\r\n"}).Draw(t, "between"))
	})
	for _, use := range known {
		t.Run(string(use), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				words := message.Draw(t, "message")
				p := succeeds(use, words)
				p.Stderr = []byte("Error executing tool x: " + words + "\n")
				e, err := Explain(use, p)
				require.NoError(t, err)
				require.Equal(t, Answered, e.Class, e.Reason)
				require.Equal(t, words, e.Text)
				require.True(t, e.ResetAt.IsZero())
				require.Zero(t, e.Wait)
				require.False(t, e.SessionLost)
				plain, err := Explain(use, succeeds(use, "x"))
				require.NoError(t, err)
				require.Equal(t, plain.CostMicroUSD, e.CostMicroUSD)
				require.Equal(t, plain.Tokens, e.Tokens)

				// A role asks for a document: other words are discarded, and no more.
				p.Role = Implementer
				e, err = Explain(use, p)
				require.NoError(t, err)
				require.Equal(t, Discarded, e.Class)
			})
		})
	}
}

// The same failure means the same whatever the model had said before.
func TestWordsBeforeAFailureNeverDecide(t *testing.T) {
	for _, use := range known {
		for name, p := range captures(t, use) {
			before, err := Explain(use, p)
			require.NoError(t, err)
			if len(p.Stdout) == 0 || p.Stdout[0] != '{' || !strings.Contains(string(p.Stdout[:min(len(p.Stdout), 80)]), `"type"`) {
				continue
			}
			first, rest, _ := strings.Cut(string(p.Stdout), "\n")
			if rest == "" {
				continue
			}
			said := succeeds(use, "You've hit your usage limit")
			talk := strings.Split(strings.TrimSpace(string(said.Stdout)), "\n")
			keep := []string{first}
			for _, l := range talk {
				if strings.Contains(l, "hit your usage limit") && !strings.Contains(l, `"type":"result"`) {
					keep = append(keep, strings.NewReplacer("ses_1", before.Session, "claude-sonnet-5-5", before.Model).Replace(l))
				}
			}
			p.Stdout = []byte(strings.Join(keep, "\n") + "\n" + rest)
			after, err := Explain(use, p)
			require.NoError(t, err)
			if name == "d-529-fallback" {
				continue // there, what the words say is who said them
			}
			if use == slice.AdapterGemini && before.Class == Discarded || name == "d-empty" || name == "d-connrefused-noretry" {
				continue // where no word was said, now one is
			}
			require.Equal(t, before.Class, after.Class, "%s/%s: %s", use, name, after.Reason)
			require.Equal(t, before.ResetAt, after.ResetAt, name)
		}
	}
}

func TestUnknownEventsAreIgnored(t *testing.T) {
	for _, use := range known {
		p := succeeds(use, "done")
		var with []string
		for l := range strings.Lines(string(p.Stdout)) {
			with = append(with, `{"type":"of_tomorrow","error":{"message":"x"},"is_error":true,"status":"error"}`, `not JSON`, `{"type":`, `[1,null,{}]`, `"x"`, `{}`, strings.TrimSpace(l))
		}
		want, err := Explain(use, p)
		require.NoError(t, err)
		p.Stdout = []byte(strings.Join(with, "\n"))
		got, err := Explain(use, p)
		require.NoError(t, err)
		require.Equal(t, want, got, use)
	}
}

// Output that ends anywhere but at its end is no answer.
func TestCutOutputIsNoAnswer(t *testing.T) {
	for _, use := range known {
		whole := succeeds(use, "done").Stdout
		for n := range len(whole) - 2 {
			e, err := Explain(use, Printed{Stdout: whole[:n]})
			require.NoError(t, err)
			require.NotEqual(t, Answered, e.Class, "%s cut at %d", use, n)
		}
	}
}

func TestAnswersOfARole(t *testing.T) {
	for _, use := range known {
		for _, c := range []struct {
			message string
			class   Class
			answer  string
		}{
			{`{"status":"done"}`, Answered, `{"status":"done"}`},
			{"\n```json\n{\"status\":\"done\"}\n```\n", Answered, `{"status":"done"}`},
			{"```\n{\"status\":\"failed\",\"summary\":null}\n```", Answered, `{"status":"failed"}`},
			{"Here it is:\n```json\n{\"status\":\"done\"}\n```", Discarded, ""},
			{"```json\n{\"status\":\"done\"}\n```\n```json\n{\"status\":\"failed\"}\n```", Discarded, ""},
			{`{"status":"done"}{"status":"failed"}`, Discarded, ""},
			{`{"status":"done","status":"failed"}`, Discarded, ""},
			{`{"status":"perfect"}`, Discarded, ""},
			{`I am done.`, Discarded, ""},
		} {
			p := succeeds(use, c.message)
			p.Role = Implementer
			e, err := Explain(use, p)
			require.NoError(t, err)
			require.Equal(t, c.class, e.Class, "%s: %q: %s", use, c.message, e.Reason)
			if c.class == Answered {
				require.JSONEq(t, c.answer, string(e.Answer))
			} else {
				require.Empty(t, e.Answer)
			}
		}
	}
	p := Printed{Role: Judge, Stdout: lines(claudeInit, claudeResult(`"subtype":"success","is_error":false,"terminal_reason":"completed","result":"words","structured_output":`+goodJudge))}
	e, err := Explain(slice.AdapterClaude, p)
	require.NoError(t, err)
	require.Equal(t, Answered, e.Class, e.Reason)
	require.JSONEq(t, goodJudge, string(e.Answer))
}

func TestTheModelThatAnswered(t *testing.T) {
	for _, c := range []struct {
		asked, answered string
		same            bool
	}{
		{"sonnet", "claude-sonnet-5-5", true},
		{"sonnet", "claude-sonnet-5-5-20261101", true},
		{"Sonnet[1m]", "claude-sonnet-5-5", true},
		{"opus", "claude-sonnet-5-5", false},
		{"claude-sonnet-5-5", "claude-sonnet-5-5-20261101", true},
		{"claude-sonnet-5", "claude-sonnet-5-5", false},
		{"claude-sonnet-4-5-latest", "claude-sonnet-4-5-20250929", true},
		{"gpt-5", "gpt-5-mini", false},
		{"gpt-5", "gpt-5-2026-08-07", true},
		{"gpt-5", "gpt-5.5", false},
		{"openai/gpt-5.5", "gpt-5.5", true},
		{"gemini-2.5-pro", "gemini-2.5-flash", false},
		{"pro", "gemini-2.5-pro", true},
		{"son", "claude-sonnet-5-5", false},
	} {
		require.Equal(t, c.same, sameModel(c.asked, c.answered), "%s %s", c.asked, c.answered)
	}
	p := succeeds(slice.AdapterClaude, "x")
	p.Model = "opus"
	e, err := Explain(slice.AdapterClaude, p)
	require.NoError(t, err)
	require.Equal(t, Fatal, e.Class)
	require.Contains(t, e.Reason, `the model "claude-sonnet-5-5" answered, but "opus" was asked for`)

	p = succeeds(slice.AdapterGemini, "x")
	p.Stdout = []byte(strings.ReplaceAll(string(p.Stdout), `"models":{"gemini-2.5-pro":{"total_tokens":11}}`, `"models":{"gemini-2.5-pro":{"total_tokens":0},"gemini-2.5-flash":{"total_tokens":11}}`))
	e, err = Explain(slice.AdapterGemini, p)
	require.NoError(t, err)
	require.Equal(t, Fatal, e.Class)
	require.Contains(t, e.Reason, "gemini-2.5-flash")

	p.Stdout = []byte(strings.ReplaceAll(string(p.Stdout), `"gemini-2.5-pro":{"total_tokens":0}`, `"gemini-2.5-pro":{"total_tokens":5}`))
	e, err = Explain(slice.AdapterGemini, p)
	require.NoError(t, err)
	require.Equal(t, Answered, e.Class, "another model may help")
	require.Equal(t, "gemini-2.5-pro", e.Model)
}

func TestMoneyThatIsNotBelieved(t *testing.T) {
	for cost, want := range map[string]int64{
		"0.5": 500_000, "1e-7": 1, "0": -1, "-1": -1, "1e300": -1, "1001": -1, "null": -1, `"0.5"`: -1, `"a"`: -1, `{}`: -1, "1e999999999": -1, "0." + strings.Repeat("1", 100): -1,
	} {
		p := succeeds(slice.AdapterClaude, "x")
		p.Stdout = []byte(strings.ReplaceAll(string(p.Stdout), `"costUSD":0.5`, `"costUSD":`+cost))
		e, err := Explain(slice.AdapterClaude, p)
		require.NoError(t, err)
		require.Equal(t, Answered, e.Class, cost)
		require.Equal(t, want >= 0, e.CostKnown, cost)
		require.Equal(t, max(want, 0), e.CostMicroUSD, cost)
	}
	p := succeeds(slice.AdapterClaude, "x")
	p.Stdout = []byte(strings.ReplaceAll(string(p.Stdout), `"costUSD":0.5`, `"costUSD":NaN`))
	e, err := Explain(slice.AdapterClaude, p)
	require.NoError(t, err)
	require.NotEqual(t, Answered, e.Class, "that is no JSON")
	require.False(t, e.CostKnown)

	for _, total := range []string{"1e999999999", "NaN0", "1001"} {
		e, err = Explain(slice.AdapterClaude, Printed{Stdout: lines(`{"type":"result","subtype":"success","is_error":false,"result":"x","terminal_reason":"completed","total_cost_usd":` + total + `}`)})
		require.NoError(t, err)
		require.False(t, e.CostKnown, total)
	}

	p = succeeds(slice.AdapterOpencode, "x")
	p.Stdout = []byte(strings.ReplaceAll(string(p.Stdout), `"cost":0.5`, `"cost":0`))
	e, err = Explain(slice.AdapterOpencode, p)
	require.NoError(t, err)
	require.False(t, e.CostKnown, "a model without a price")
}

func TestCodexCountsOverTheSession(t *testing.T) {
	p := succeeds(slice.AdapterCodex, "x")
	p.Before = Tokens{Input: 4, Cached: 1, Output: 1}
	e, err := Explain(slice.AdapterCodex, p)
	require.NoError(t, err)
	require.Equal(t, Tokens{Input: 6, Cached: 4}, e.Tokens)
	p.Before.Input = 11
	e, err = Explain(slice.AdapterCodex, p)
	require.NoError(t, err)
	require.Zero(t, e.Tokens)
	require.False(t, e.TokensKnown, "a counter that began again")
}

func TestCodexLog(t *testing.T) {
	log := lines(
		`{"type":"turn_context","payload":{"model":"gpt-5.5"}}`,
		`{"type":"event_msg","payload":{"type":"task_started"}}`,
		`{"type":"event_msg","payload":{"type":"token_count","info":{"total_token_usage":{"input_tokens":9,"cached_input_tokens":2,"output_tokens":1}},"rate_limits":{"primary":{"used_percent":100.0,"window_minutes":300,"resets_at":1796067276},"secondary":{"used_percent":40.0,"window_minutes":10080,"resets_at":1796360076}}}}`,
		`{"type":"event_msg","payload":{"type":"task_complete","error":{"message":"x","codex_error_info":"usage_limit_exceeded"}}}`,
	)
	e, err := Explain(slice.AdapterCodex, Printed{ExitCode: 1, Stdout: codexFailure("You’ve hit your usage limit. try again at 7:34 PM."), Log: log})
	require.NoError(t, err)
	require.Equal(t, Limit, e.Class)
	require.Equal(t, int64(1796067276), e.ResetAt.Unix(), "to the second")
	require.Equal(t, "gpt-5.5", e.Model)
	require.Equal(t, Tokens{Input: 9, Cached: 2, Output: 1}, e.Tokens)

	both := strings.ReplaceAll(string(log), `"used_percent":40.0`, `"used_percent":100.0`)
	e, err = Explain(slice.AdapterCodex, Printed{ExitCode: 1, Stdout: codexFailure("a sentence of tomorrow"), Log: []byte(both)})
	require.NoError(t, err)
	require.Equal(t, Limit, e.Class)
	require.Equal(t, int64(1796360076), e.ResetAt.Unix(), "the later of the two")

	for info, class := range map[string]Class{
		`{"http_connection_failed":{"http_status_code":401}}`:            Fatal,
		`{"response_too_many_failed_attempts":{"http_status_code":429}}`: Transient,
		`"context_window_exceeded"`:                                      Context, `"server_overloaded"`: Transient, `"other"`: Transient, `null`: Transient, `7`: Transient,
	} {
		log := lines(`{"type":"event_msg","payload":{"type":"task_complete","error":{"codex_error_info":` + info + `}}}`)
		e, err := Explain(slice.AdapterCodex, Printed{ExitCode: 1, Stdout: codexFailure("a sentence of tomorrow"), Log: log})
		require.NoError(t, err)
		require.Equal(t, class, e.Class, info)
	}
}

func TestCodexReset(t *testing.T) {
	now := time.Date(2026, 11, 30, 20, 0, 30, 0, time.UTC)
	const thread = "01a22d85-d4ee-7943-84d2-40a22e6718cf" // of 2026-11-30 17:34
	for _, c := range []struct {
		message string
		now     time.Time
		want    string
	}{
		{"or try again at 8:02 PM.", now, "2026-11-30T20:02:00Z"},
		{"or try again at 8:00 PM.", now, "2026-11-30T20:00:00Z"},
		{"or try again at 7:34 PM.", now, "2026-12-01T19:34:00Z"},
		{"or try again at 12:05 AM.", now, "2026-12-01T00:05:00Z"},
		{"or try again at 7:34 PM.", time.Time{}, "2026-11-30T19:34:00Z"},
		{"or try again at Dec 4th, 2026 4:55 AM.", now, "2026-12-04T04:55:00Z"},
		{"or try again at Jan 1st, 2027 12:00 PM.", now, "2027-01-01T12:00:00Z"},
		{"or try again at Feb 22nd, 2027 1:00 PM.", now, "2027-02-22T13:00:00Z"},
		{"or try again later.", now, ""},
		{"or try again at tea time.", now, ""},
		{"or try again at 25:61 PM.", now, ""},
	} {
		got := ""
		if at := codexReset(c.message, c.now, thread); !at.IsZero() {
			got = at.Format(time.RFC3339)
		}
		require.Equal(t, c.want, got, c.message)
	}
	require.True(t, codexReset("try again at 7:34 PM.", time.Time{}, "no-uuid").IsZero())
}

func TestClaudeResets(t *testing.T) {
	limit := func(status, at string) string {
		return fmt.Sprintf(`{"type":"rate_limit_event","rate_limit_info":{"status":%q,"resetsAt":%s}}`, status, at)
	}
	end := claudeResult(`"subtype":"success","is_error":true,"terminal_reason":"api_error","api_error":"usage_limit_reached","api_error_status":429,"result":"x"`)
	for _, c := range []struct {
		events []string
		want   int64
	}{
		{[]string{limit("rejected", "1796066755")}, 1796066755},
		{[]string{limit("rejected", "1796066755"), limit("rejected", "1796066800")}, 1796066800},
		{[]string{`{"type":"assistant","is_api_error_message":true,"error":"rate_limit","api_error_params":{"rate_limit_info":{"status":"rejected","resetsAt":7}}}`}, 7},
		{[]string{limit("rejected", "null")}, 0},
		{[]string{limit("rejected", "-5")}, 0},
		{[]string{limit("rejected", "99999999999999")}, 0},
		{[]string{limit("rejected", `"soon"`)}, 0},
		{nil, 0},
	} {
		e, err := Explain(slice.AdapterClaude, Printed{ExitCode: 1, Stdout: lines(append(append([]string{claudeInit}, c.events...), end)...)})
		require.NoError(t, err)
		require.Equal(t, Limit, e.Class)
		if c.want == 0 {
			require.True(t, e.ResetAt.IsZero())
		} else {
			require.Equal(t, c.want, e.ResetAt.Unix())
		}
		_, err = json.Marshal(e.ResetAt)
		require.NoError(t, err)
	}
}

func TestPriced(t *testing.T) {
	table := []slice.Price{
		{Model: "gpt-5.5", Input: 1_250_000, CachedInput: ptr(slice.USD(125_000)), Output: 10_000_000},
		{Model: "gemini-2.5-pro", Input: 1_250_000, Output: 10_000_000},
	}
	for _, c := range []struct {
		model string
		t     Tokens
		want  int64
		ok    bool
	}{
		{"gpt-5.5", Tokens{Input: 1_000_000, Cached: 1_000_000}, 125_000, true},
		{"openai/gpt-5.5", Tokens{Input: 1_000_000, Output: 100_000}, 2_250_000, true},
		{"gpt-5.5-2026-10-01", Tokens{Output: 1}, 10, true},
		{"gemini-2.5-pro", Tokens{Input: 10, Cached: 10}, 13, true}, // 12.5, rounded up
		{"gpt-5.5-mini", Tokens{Input: 1}, 0, false},
		{"", Tokens{Input: 1}, 0, false},
		{"gpt-5.5", Tokens{}, 0, false},
		{"gpt-5.5", Tokens{Input: -1}, 0, false},
		{"gpt-5.5", Tokens{Input: 1, Cached: 2}, 0, false},
		{"gpt-5.5", Tokens{Output: 1 << 62}, 0, false},
	} {
		got, ok := Priced(table, c.model, c.t)
		require.Equal(t, c.ok, ok, "%s %+v", c.model, c.t)
		require.Equal(t, c.want, got, "%s %+v", c.model, c.t)
	}
}

// The schema that a strict provider is given asks for every member, and an
// answer with nulls for what may be left out fits the real one.
func TestEveryMember(t *testing.T) {
	for _, r := range Roles() {
		var walk func(any)
		walk = func(v any) {
			switch v := v.(type) {
			case map[string]any:
				if properties, ok := v["properties"].(map[string]any); ok {
					require.Len(t, v["required"], len(properties))
					require.Equal(t, false, v["additionalProperties"])
				}
				for key, member := range v {
					require.NotContains(t, []string{"$schema", "minLength", "maxLength", "pattern", "minimum", "maximum"}, key)
					if key != "properties" {
						walk(member)
						continue
					}
					for _, property := range member.(map[string]any) {
						require.NotEmpty(t, property.(map[string]any)["type"])
						walk(property)
					}
				}
			case []any:
				for _, x := range v {
					walk(x)
				}
			}
		}
		var doc any
		require.NoError(t, json.Unmarshal(everyMember(r), &doc))
		walk(doc)
		require.NotContains(t, string(everyMember(r)), "cost_usd")
	}
	p := succeeds(slice.AdapterCodex, `{"scores":[{"criterion":"c","score":4,"reason":"r"}],"findings":[{"severity":"note","file":null,"line":null,"claim":"x","evidence":null}]}`)
	p.Role = Judge
	e, err := Explain(slice.AdapterCodex, p)
	require.NoError(t, err)
	require.Equal(t, Answered, e.Class, e.Reason)
}

func TestGlobPatterns(t *testing.T) {
	require.Equal(t, []string{`docs/[^"]*`}, globPatterns("docs/**"))
	require.Equal(t, []string{`[^"/]*_test\.go`, `[^"]*/[^"/]*_test\.go`}, globPatterns("**/*_test.go"))
	require.Equal(t, []string{`a/b\.go`}, globPatterns("a/b.go"))
}

func fuzz(f *testing.F, use slice.Adapter) {
	for _, p := range captures(f, use) {
		f.Add(p.Stdout, p.Stderr, p.ExitCode, "")
		f.Add(p.Stdout, p.Stderr, 0, string(Judge))
	}
	f.Fuzz(func(t *testing.T, stdout, stderr []byte, exit int, role string) {
		if Schema(Role(role)) == nil {
			role = ""
		}
		e, err := Explain(use, Printed{Stdout: stdout, Stderr: stderr, ExitCode: exit, Role: Role(role), Log: stdout})
		require.NoError(t, err)
		_, _, ok := e.Class.Ends()
		require.True(t, ok)
		require.Equal(t, e.Class == Answered, e.Reason == "")
		if e.Class == Answered {
			require.Zero(t, exit, "success ends with 0")
			require.True(t, len(e.Answer) > 0 || strings.TrimSpace(e.Text) != "")
		}
		if role != "" && e.Class == Answered {
			require.NoError(t, Fits(Role(role), e.Answer))
		}
		require.GreaterOrEqual(t, e.CostMicroUSD, int64(0))
		require.LessOrEqual(t, e.CostMicroUSD, int64(absurd))
		require.GreaterOrEqual(t, e.Wait, time.Duration(0))
		require.True(t, e.Session == "" || sessionName.MatchString(e.Session))
		require.True(t, utf8.ValidString(e.Reason))
		require.LessOrEqual(t, len(e.Reason), maxReason)
		_, err = json.Marshal(e)
		require.NoError(t, err)
		again, err := Explain(use, Printed{Stdout: stdout, Stderr: stderr, ExitCode: exit, Role: Role(role), Log: stdout})
		require.NoError(t, err)
		require.Equal(t, e, again, "the same in, the same out")
	})
}

func FuzzClaude(f *testing.F)   { fuzz(f, slice.AdapterClaude) }
func FuzzCodex(f *testing.F)    { fuzz(f, slice.AdapterCodex) }
func FuzzGemini(f *testing.F)   { fuzz(f, slice.AdapterGemini) }
func FuzzOpencode(f *testing.F) { fuzz(f, slice.AdapterOpencode) }

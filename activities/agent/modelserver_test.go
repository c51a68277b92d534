package agent

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// reply is what the model server answers once.
type reply struct {
	text string
	// tool is the name of a tool that the model calls, with its input.
	tool  string
	input map[string]any
	// status, if not 0, makes it an error with this body and these headers.
	status  int
	body    string
	headers map[string]string
}

// modelServer speaks, on loopback, as much of the APIs of Anthropic, OpenAI and
// Google as agent programs need. It replies as it is told, the last reply again
// and again, and keeps what it was asked.
type modelServer struct {
	*httptest.Server
	mu      sync.Mutex
	replies []reply
	bodies  []string
	keys    []string
	// model, if not empty, is the model that it says it is.
	model string
}

func newModelServer(t *testing.T) *modelServer {
	s := &modelServer{}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

// will replaces the replies and forgets what was asked.
func (s *modelServer) will(replies ...reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replies, s.bodies, s.keys = replies, nil, nil
}

func (s *modelServer) asked() (bodies, keys []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string{}, s.bodies...), append([]string{}, s.keys...)
}

func (s *modelServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	var body struct {
		Model string `json:"model"`
	}
	_ = json.Unmarshal(raw, &body)
	var speak func(io.Writer, string, reply)
	path := r.URL.Path
	switch {
	case strings.HasSuffix(path, "/messages"):
		speak = anthropic
	case strings.HasSuffix(path, "/responses") && r.Method == http.MethodPost:
		speak = openai
	case strings.HasSuffix(strings.ToLower(path), "generatecontent"):
		speak = google
		_, rest, _ := strings.Cut(path, "/models/")
		body.Model, _, _ = strings.Cut(rest, ":")
	case strings.HasSuffix(path, "/count_tokens"):
		fmt.Fprint(w, `{"input_tokens":1}`)
		return
	default:
		http.Error(w, `{"type":"error","error":{"type":"not_found_error","message":"no such route"}}`, http.StatusNotFound)
		return
	}
	s.mu.Lock()
	s.bodies = append(s.bodies, string(raw))
	s.keys = append(s.keys, r.Header.Get("Authorization")+r.Header.Get("X-Api-Key")+r.Header.Get("X-Goog-Api-Key"))
	next := reply{text: "aside"}
	if len(s.replies) > 0 {
		next = s.replies[0]
		if len(s.replies) > 1 {
			s.replies = s.replies[1:]
		}
	}
	if s.model != "" {
		body.Model = s.model
	}
	s.mu.Unlock()
	for name, value := range next.headers {
		w.Header().Set(name, value)
	}
	if next.status != 0 {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(next.status)
		fmt.Fprint(w, next.body)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	speak(w, body.Model, next)
}

// event writes one server-sent event.
func event(w io.Writer, kind string, data map[string]any) {
	data["type"] = kind
	b, err := json.Marshal(data)
	if err != nil {
		panic(err)
	}
	fmt.Fprintf(w, "event: %s\ndata: %s\n\n", kind, b)
}

type m = map[string]any

func anthropic(w io.Writer, model string, r reply) {
	block, delta, stop := m{"type": "text", "text": ""}, m{"type": "text_delta", "text": r.text}, "end_turn"
	if r.tool != "" {
		input, _ := json.Marshal(r.input)
		block = m{"type": "tool_use", "id": "toolu_01x", "name": r.tool, "input": m{}}
		delta, stop = m{"type": "input_json_delta", "partial_json": string(input)}, "tool_use"
	}
	usage := m{"input_tokens": 1000, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 4000, "output_tokens": 50}
	event(w, "message_start", m{"message": m{"id": "msg_01x", "type": "message", "role": "assistant", "model": model, "content": []any{}, "stop_reason": nil, "usage": usage}})
	event(w, "content_block_start", m{"index": 0, "content_block": block})
	event(w, "content_block_delta", m{"index": 0, "delta": delta})
	event(w, "content_block_stop", m{"index": 0})
	event(w, "message_delta", m{"delta": m{"stop_reason": stop, "stop_sequence": nil}, "usage": m{"output_tokens": 50}})
	event(w, "message_stop", m{})
}

func openai(w io.Writer, model string, r reply) {
	response := m{"id": "resp_x", "object": "response", "created_at": 1, "status": "in_progress", "model": model, "output": []any{}}
	event(w, "response.created", m{"response": response, "sequence_number": 0})
	var item m
	if r.tool != "" {
		input, _ := json.Marshal(r.input)
		item = m{"type": "function_call", "id": "fc_x", "call_id": "call_x", "name": r.tool, "arguments": string(input), "status": "completed"}
		event(w, "response.output_item.added", m{"output_index": 0, "item": m{"type": "function_call", "id": "fc_x", "call_id": "call_x", "name": r.tool, "arguments": "", "status": "in_progress"}})
		event(w, "response.function_call_arguments.delta", m{"output_index": 0, "item_id": "fc_x", "delta": string(input)})
		event(w, "response.function_call_arguments.done", m{"output_index": 0, "item_id": "fc_x", "arguments": string(input)})
	} else {
		content := m{"type": "output_text", "text": r.text, "annotations": []any{}, "logprobs": []any{}}
		item = m{"type": "message", "role": "assistant", "id": "msg_x", "status": "completed", "content": []any{content}}
		event(w, "response.output_item.added", m{"output_index": 0, "item": m{"type": "message", "role": "assistant", "id": "msg_x", "status": "in_progress", "content": []any{}}})
		event(w, "response.output_text.delta", m{"output_index": 0, "content_index": 0, "item_id": "msg_x", "delta": r.text})
	}
	event(w, "response.output_item.done", m{"output_index": 0, "item": item})
	event(w, "response.completed", m{"response": m{"id": "resp_x", "object": "response", "created_at": 1, "status": "completed", "model": model, "output": []any{item}, "usage": m{
		"input_tokens": 5000, "input_tokens_details": m{"cached_tokens": 4000}, "output_tokens": 50, "output_tokens_details": m{"reasoning_tokens": 10}, "total_tokens": 5050,
	}}})
}

func google(w io.Writer, model string, r reply) {
	part := m{"text": r.text}
	if r.tool != "" {
		part = m{"functionCall": m{"name": r.tool, "args": r.input}}
	}
	b, err := json.Marshal(m{
		"candidates":    []any{m{"content": m{"role": "model", "parts": []any{part}}, "finishReason": "STOP", "index": 0}},
		"usageMetadata": m{"promptTokenCount": 5000, "cachedContentTokenCount": 4000, "candidatesTokenCount": 40, "thoughtsTokenCount": 10, "totalTokenCount": 5050},
		"modelVersion":  model, "responseId": "r",
	})
	if err != nil {
		panic(err)
	}
	fmt.Fprintf(w, "data: %s\n\n", b)
}

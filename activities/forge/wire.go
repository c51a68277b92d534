package forge

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"interlock/slice"
)

// wire is the transport of every call. It reads what the answers of all forges
// have in common, so that their clients need not: errors become *Error, limits
// a time to come back at, and what has not changed is not sent again.
type wire struct {
	host  string // the only one that is told the token
	token string
	kind  slice.ForgeKind
	cache *Cache
	next  http.RoundTripper
}

// maxAnswer bounds what is kept of an answer in the cache, maxMessage of an error.
const (
	maxAnswer  = 1 << 20
	maxMessage = 64 << 10
	maxCached  = 256
)

// RoundTrip implements http.RoundTripper.
func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("User-Agent", "interlock")
	r.Header.Del("Authorization")
	ours := r.URL.Host == w.host
	if ours && w.token != "" {
		scheme := "Bearer "
		if w.kind == slice.ForgeGitea {
			scheme = "token "
		}
		r.Header.Set("Authorization", scheme+w.token)
	}
	key := ""
	if r.Method == http.MethodGet && ours && w.cache != nil {
		key = w.token + " " + r.Header.Get("Accept") + " " + r.URL.String()
	}
	had, cached := w.cache.get(key)
	if cached {
		r.Header.Set("If-None-Match", had.etag)
	}
	resp, err := w.next.RoundTrip(r)
	if err != nil {
		return nil, &Error{Kind: Unreachable, Message: r.URL.Host + " cannot be reached", Err: err}
	}
	switch {
	case resp.StatusCode == http.StatusNotModified && cached:
		_ = resp.Body.Close()
		return had.answer(r), nil
	case resp.StatusCode < 400:
		return w.keep(key, resp)
	}
	defer func() { _ = resp.Body.Close() }()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxMessage))
	return nil, classify(r, resp, message(body), time.Now())
}

// keep remembers an answer that has an ETag.
func (w *wire) keep(key string, resp *http.Response) (*http.Response, error) {
	etag := resp.Header.Get("ETag")
	if key == "" || etag == "" || resp.StatusCode != http.StatusOK {
		return resp, nil
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		_ = resp.Body.Close()
		return nil, &Error{Kind: Unreachable, Message: "the answer of " + w.host + " was cut off", Err: err}
	}
	rest := resp.Body
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(body), rest), rest}
	if len(body) <= maxAnswer {
		w.cache.put(key, entry{etag: etag, header: resp.Header.Clone(), body: body})
	}
	return resp, nil
}

// Cache remembers answers by address and token, in memory: what a forge says
// has not changed costs no call of its limit. The nil Cache remembers nothing.
type Cache struct {
	mu      sync.Mutex
	entries map[string]entry
	order   []string
}

type entry struct {
	etag   string
	header http.Header
	body   []byte
}

func (e entry) answer(r *http.Request) *http.Response {
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: e.header.Clone(), Body: io.NopCloser(bytes.NewReader(e.body)), ContentLength: int64(len(e.body)), Request: r,
	}
}

func (c *Cache) get(key string) (entry, bool) {
	if c == nil || key == "" {
		return entry{}, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[key]
	return e, ok
}

func (c *Cache) put(key string, e entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries == nil {
		c.entries = map[string]entry{}
	}
	if _, had := c.entries[key]; !had {
		c.order = append(c.order, key)
	}
	c.entries[key] = e
	for len(c.order) > maxCached {
		delete(c.entries, c.order[0])
		c.order = c.order[1:]
	}
}

// classify reads an answer that is an error.
func classify(r *http.Request, resp *http.Response, said string, now time.Time) *Error {
	e := &Error{Kind: Refused}
	at, limited := limit(resp, said, now)
	what := strings.ToLower(said)
	switch code := resp.StatusCode; {
	case limited:
		e.Kind, e.RetryAt = Limited, at
	case code == http.StatusUnauthorized:
		e.Kind = Unauthorized
	case code == http.StatusNotFound, code == http.StatusGone:
		e.Kind = NotFound
	case code == http.StatusRequestTimeout, code >= 500:
		e.Kind = Unreachable
	case strings.Contains(what, "try again") || strings.Contains(what, "try the merge again"):
		e.Kind = Unready
	case code == http.StatusConflict:
		e.Kind = Conflict
	}
	if said == "" {
		said = http.StatusText(resp.StatusCode)
	}
	e.Message = fmt.Sprintf("%s answered %d to %s %s: %s", r.URL.Host, resp.StatusCode, r.Method, r.URL.Path, said)
	switch e.Kind {
	case Unauthorized:
		e.Message += " (the token is missing, wrong or expired)"
	case NotFound:
		e.Message += " (it is not there, or the token may not see it)"
	default:
	}
	return e
}

// limit reads a rate limit from the headers, never from words alone: at is when
// it ends, zero if the forge does not say.
func limit(resp *http.Response, said string, now time.Time) (at time.Time, limited bool) {
	h := resp.Header
	if resp.StatusCode != http.StatusForbidden && resp.StatusCode != http.StatusTooManyRequests &&
		(resp.StatusCode != http.StatusServiceUnavailable || h.Get("Retry-After") == "") {
		return at, false
	}
	if after := h.Get("Retry-After"); after != "" {
		if n, err := strconv.Atoi(after); err == nil && n >= 0 {
			return now.Add(min(time.Duration(n)*time.Second, mostWait)), true
		}
		if t, err := http.ParseTime(after); err == nil {
			return earlier(t, now.Add(mostWait)), true
		}
	}
	if h.Get("X-RateLimit-Remaining") == "0" {
		if n, err := strconv.ParseInt(h.Get("X-RateLimit-Reset"), 10, 64); err == nil {
			return earlier(time.Unix(n, 0), now.Add(mostWait)), true
		}
		return at, true
	}
	// GitHub's secondary limits need not have a header.
	secondary := resp.StatusCode == http.StatusForbidden && strings.Contains(strings.ToLower(said), "secondary rate limit")
	return at, secondary || resp.StatusCode == http.StatusTooManyRequests
}

// mostWait is the longest that a forge is believed at once; then it is asked again.
const mostWait = 24 * time.Hour

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// message is what the body of an error says, in one line.
func message(body []byte) string {
	var said struct {
		Message string            `json:"message"`
		Errors  []json.RawMessage `json:"errors"`
	}
	if json.Unmarshal(body, &said) != nil {
		return clip(string(body))
	}
	text := said.Message
	for _, raw := range said.Errors {
		var e struct{ Message, Field, Code string }
		var s string
		switch {
		case json.Unmarshal(raw, &s) == nil:
			text += "; " + s
		case json.Unmarshal(raw, &e) == nil && e.Message != "":
			text += "; " + e.Message
		case e.Code != "":
			text += "; " + strings.TrimSpace(e.Field+" "+e.Code)
		}
	}
	return clip(text)
}

func clip(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > 500 {
		return string(r[:499]) + "…"
	}
	return s
}

// Package fakeforge is a code host for tests: the part of the interfaces of
// GitHub and Gitea that Interlock uses, over a real bare repository. It does
// what it is told as often as it is told: asked twice, it opens two proposals.
// Faults make it fail as the real ones do.
package fakeforge

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Fault is how a request goes wrong; the zero value is none.
type Fault struct {
	// After lets the request have its effect first: its answer is what is lost.
	After bool
	// Drop closes the connection without an answer; Status answers instead.
	Drop   bool
	Status int
	Header map[string]string
	Body   string
}

// Check is what CI says of a commit.
type Check struct {
	Name string
	// Status is queued, in_progress or completed; Conclusion as GitHub has it.
	Status, Conclusion string
	// Old makes it a commit status instead of a check run.
	Old bool
	// App is whose it is; empty means github-actions.
	App string
	Log string
}

// Green is a check that has succeeded, Red one that has failed.
func Green(name string) Check {
	return Check{Name: name, Status: "completed", Conclusion: "success"}
}

// Red is a check that has failed.
func Red(name, log string) Check {
	return Check{Name: name, Status: "completed", Conclusion: "failure", Log: log}
}

// Pull is a proposal.
type Pull struct {
	Number             int
	Title, Body        string
	Head, Base         string
	Fork               bool // its branch is one of another repository
	State              string
	Merged             bool
	MergedBy, MergeSHA string
	Comments           []string

	headSHA string
}

// Server is the code host with one repository.
type Server struct {
	URL                string
	Owner, Name, Token string
	// Dir is the bare repository.
	Dir string

	mu    sync.Mutex
	pulls []*Pull
	// Fault, CI and BeforeMerge are asked at every request they are for.
	fault       func(*http.Request) Fault
	ci          func(commit string) []Check
	beforeMerge func()
	// strict refuses a second proposal of a branch, as the real ones do.
	strict    bool
	refuse    string // why nothing can be merged
	uncertain int    // so many reads do not know whether a proposal can be merged
	seen      []string
	saved     int
	leaked    bool
	http      *httptest.Server
}

// New starts a code host over the bare repository at dir.
func New(dir string) *Server {
	s := &Server{Owner: "shop", Name: "api", Token: "secret-token-of-the-forge", Dir: dir}
	s.http = httptest.NewServer(s)
	s.URL = s.http.URL
	return s
}

// Close stops the server.
func (s *Server) Close() { s.http.Close() }

// Set changes how the server behaves, between requests.
func (s *Server) Set(change func(*Behaviour)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := Behaviour{s.fault, s.ci, s.beforeMerge, s.strict, s.refuse, s.uncertain}
	change(&b)
	s.fault, s.ci, s.beforeMerge, s.strict, s.refuse, s.uncertain = b.Fault, b.CI, b.BeforeMerge, b.Strict, b.Refuse, b.Uncertain
}

// Behaviour is what a test decides.
type Behaviour struct {
	Fault func(*http.Request) Fault
	CI    func(commit string) []Check
	// BeforeMerge is called when a merge was asked for and is about to be done.
	BeforeMerge func()
	Strict      bool
	Refuse      string
	Uncertain   int
}

// Pulls returns the proposals as they are.
func (s *Server) Pulls() []Pull {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Pull
	for _, p := range s.pulls {
		s.refresh(p)
		all = append(all, *p)
	}
	return all
}

// Change changes a proposal, as a person at the forge does.
func (s *Server) Change(number int, change func(*Pull)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s.pulls[number-1])
}

// Add opens a proposal, as a person at the forge does.
func (s *Server) Add(p Pull) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(p)
}

// Requests returns what was asked, as "METHOD path".
func (s *Server) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.seen...)
}

// Saved is how many answers were not sent again because they had not changed.
func (s *Server) Saved() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.saved
}

// Leaked reports whether the token was sent where it does not belong.
func (s *Server) Leaked() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leaked
}

// Git runs git in the repository.
func (s *Server) Git(args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = s.Dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_AUTHOR_NAME=forge", "GIT_AUTHOR_EMAIL=forge@example.org", "GIT_COMMITTER_NAME=forge", "GIT_COMMITTER_EMAIL=forge@example.org",
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out)), err
}

func (s *Server) tip(branch string) string {
	id, err := s.Git("rev-parse", "--quiet", "--verify", "refs/heads/"+branch)
	if err != nil {
		return ""
	}
	return id
}

func (s *Server) contains(commit, other string) bool {
	_, err := s.Git("merge-base", "--is-ancestor", other, commit)
	return err == nil
}

func (s *Server) add(p Pull) *Pull {
	p.Number, p.State = len(s.pulls)+1, "open"
	p.headSHA = s.tip(p.Head)
	s.pulls = append(s.pulls, &p)
	return &p
}

// refresh does to an open proposal what pushes to its branches do.
func (s *Server) refresh(p *Pull) {
	if p.State != "open" || p.Fork {
		return
	}
	head := s.tip(p.Head)
	if head == "" {
		p.State = "closed"
		return
	}
	p.headSHA = head
	if base := s.tip(p.Base); base != "" && s.contains(base, head) {
		p.State, p.Merged, p.MergeSHA = "closed", true, head
	}
}

type failure struct {
	status  int
	message string
	errors  []string
}

func (f *failure) Error() string { return f.message }

func fail(status int, message string, more ...string) error { return &failure{status, message, more} }

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, r.Method+" "+r.URL.Path)
	if strings.HasPrefix(r.URL.Path, "/logs/") {
		s.log(w, r)
		return
	}
	var fault Fault
	if s.fault != nil {
		fault = s.fault(r)
	}
	if (fault.Drop || fault.Status != 0) && !fault.After {
		s.misbehave(w, fault)
		return
	}
	auth := r.Header.Get("Authorization")
	if auth != "Bearer "+s.Token && auth != "token "+s.Token {
		answer(w, http.StatusUnauthorized, map[string]any{"message": "Bad credentials"})
		return
	}
	status, body, err := s.route(r)
	if fault.After {
		s.misbehave(w, fault)
		return
	}
	var f *failure
	if errors.As(err, &f) {
		said := map[string]any{"message": f.message}
		for _, e := range f.errors {
			more, _ := said["errors"].([]any)
			said["errors"] = append(more, map[string]any{"resource": "PullRequest", "code": "custom", "message": e})
		}
		answer(w, f.status, said)
		return
	}
	if err != nil {
		answer(w, http.StatusInternalServerError, map[string]any{"message": err.Error()})
		return
	}
	if u, ok := body.(redirect); ok {
		http.Redirect(w, r, string(u), http.StatusFound)
		return
	}
	s.reply(w, r, status, body)
}

type redirect string

func (s *Server) misbehave(w http.ResponseWriter, f Fault) {
	for k, v := range f.Header {
		w.Header().Set(k, v)
	}
	if !f.Drop {
		w.WriteHeader(f.Status)
		_, _ = w.Write([]byte(f.Body))
		return
	}
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	_ = conn.Close()
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func (s *Server) reply(w http.ResponseWriter, r *http.Request, status int, body any) {
	if body == nil {
		w.WriteHeader(status)
		return
	}
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(body); err != nil {
		panic(err)
	}
	if r.Method == http.MethodGet {
		sum := sha256.Sum256(b.Bytes())
		etag := `W/"` + hex.EncodeToString(sum[:8]) + `"`
		w.Header().Set("ETag", etag)
		if r.Header.Get("If-None-Match") == etag {
			s.saved++
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes())
}

// log serves what the real forge keeps at another host, without a token.
func (s *Server) log(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "" {
		s.leaked = true
	}
	if s.ci != nil {
		for i, c := range s.ci("") {
			if strconv.Itoa(i+1) == strings.TrimPrefix(r.URL.Path, "/logs/") {
				_, _ = w.Write([]byte(c.Log))
				return
			}
		}
	}
	w.WriteHeader(http.StatusNotFound)
}

// route takes a request to what it asks for.
func (s *Server) route(r *http.Request) (int, any, error) {
	gitea := strings.HasPrefix(r.URL.Path, "/api/v1/")
	path, ok := strings.CutPrefix(r.URL.Path, "/api/v3/repos/"+s.Owner+"/"+s.Name)
	if gitea {
		path, ok = strings.CutPrefix(r.URL.Path, "/api/v1/repos/"+s.Owner+"/"+s.Name)
	}
	parts := strings.Split(strings.Trim(path, "/"), "/")
	if !ok {
		return 0, nil, fail(http.StatusNotFound, "Not Found")
	}
	what := r.Method + " " + parts[0]
	switch {
	case path == "":
		return http.StatusOK, map[string]any{"id": 1, "full_name": s.Owner + "/" + s.Name}, nil
	case what == "GET pulls" && len(parts) == 1:
		return s.list(r, gitea)
	case what == "POST pulls" && len(parts) == 1:
		return s.create(r, gitea)
	case parts[0] == "commits" && len(parts) == 3:
		return s.checks(r, parts[1], parts[2])
	case what == "GET actions" && len(parts) == 4 && parts[3] == "logs":
		return 0, redirect(s.URL + "/logs/" + parts[2]), nil
	}
	if len(parts) < 2 || parts[0] != "pulls" && parts[0] != "issues" {
		return 0, nil, fail(http.StatusNotFound, "Not Found")
	}
	n, err := strconv.Atoi(parts[1])
	if err != nil || n < 1 || n > len(s.pulls) {
		return 0, nil, fail(http.StatusNotFound, "Not Found")
	}
	p := s.pulls[n-1]
	s.refresh(p)
	switch {
	case what == "GET pulls" && len(parts) == 2:
		return http.StatusOK, s.show(p, gitea), nil
	case what == "PATCH pulls":
		return s.edit(r, p, gitea)
	case len(parts) == 3 && parts[2] == "merge" && r.Method != http.MethodGet:
		return s.merge(r, p, gitea)
	case what == "GET issues":
		var all []any
		for i, c := range p.Comments {
			all = append(all, map[string]any{"id": i + 1, "body": c})
		}
		return http.StatusOK, append([]any{}, all...), nil
	case what == "POST issues":
		var in struct{ Body string }
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			return 0, nil, err
		}
		p.Comments = append(p.Comments, in.Body)
		return http.StatusCreated, map[string]any{"id": len(p.Comments), "body": in.Body}, nil
	}
	return 0, nil, fail(http.StatusNotFound, "Not Found")
}

func (s *Server) list(r *http.Request, gitea bool) (int, any, error) {
	q := r.URL.Query()
	all := []any{}
	if page := q.Get("page"); page != "" && page != "1" && page != "0" {
		return http.StatusOK, all, nil
	}
	_, head, _ := strings.Cut(q.Get("head"), ":")
	for i := len(s.pulls) - 1; i >= 0; i-- {
		p := s.pulls[i]
		s.refresh(p)
		if (gitea || head == "" || p.Head == head) && (q.Get("state") == "all" || p.State == "open") {
			all = append(all, s.show(p, gitea))
		}
	}
	return http.StatusOK, all, nil
}

func (s *Server) show(p *Pull, gitea bool) map[string]any {
	owner, id := s.Owner, 1
	if p.Fork {
		owner, id = "stranger", 2
	}
	repo := map[string]any{"id": id, "full_name": owner + "/" + s.Name, "name": s.Name}
	m := map[string]any{
		"id": p.Number + 1000, "number": p.Number, "title": p.Title, "body": p.Body, "state": p.State, "merged": p.Merged,
		"html_url": fmt.Sprintf("%s/%s/%s/pull/%d", s.URL, s.Owner, s.Name, p.Number),
		"head":     map[string]any{"ref": p.Head, "label": p.Head, "sha": p.headSHA, "repo": repo, "repo_id": id},
		"base":     map[string]any{"ref": p.Base, "label": p.Base, "sha": s.tip(p.Base), "repo": map[string]any{"id": 1, "full_name": s.Owner + "/" + s.Name}, "repo_id": 1},
	}
	if gitea {
		m["head"].(map[string]any)["label"] = p.Head
	}
	if p.Merged {
		m["merged_at"] = time.Unix(1_700_000_000, 0).UTC().Format(time.RFC3339)
		m["merge_commit_sha"] = p.MergeSHA
		if p.MergedBy != "" {
			m["merged_by"] = map[string]any{"login": p.MergedBy, "username": p.MergedBy}
		}
	}
	switch {
	case p.State != "open":
	case s.uncertain > 0 && !gitea:
		s.uncertain--
		m["mergeable"] = nil
	default:
		_, err := s.Git("merge-tree", "--write-tree", "refs/heads/"+p.Base, p.headSHA)
		m["mergeable"] = err == nil
	}
	return m
}

func (s *Server) create(r *http.Request, gitea bool) (int, any, error) {
	var in struct{ Title, Body, Head, Base string }
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		return 0, nil, err
	}
	invalid := http.StatusUnprocessableEntity
	switch {
	case s.tip(in.Head) == "" || s.tip(in.Base) == "":
		if gitea {
			return 0, nil, fail(http.StatusNotFound, "The target couldn't be found.")
		}
		return 0, nil, fail(invalid, "Validation Failed", "head or base is invalid")
	case s.contains(s.tip(in.Base), s.tip(in.Head)):
		return 0, nil, fail(invalid, "Validation Failed", fmt.Sprintf("No commits between %s and %s", in.Base, in.Head))
	}
	for _, p := range s.pulls {
		if s.refresh(p); s.strict && p.State == "open" && p.Head == in.Head && p.Base == in.Base {
			if gitea {
				return 0, nil, fail(http.StatusConflict, fmt.Sprintf("pull request already exists for these targets [id: %d]", p.Number))
			}
			return 0, nil, fail(invalid, "Validation Failed", fmt.Sprintf("A pull request already exists for %s:%s.", s.Owner, in.Head))
		}
	}
	p := s.add(Pull{Title: in.Title, Body: in.Body, Head: in.Head, Base: in.Base})
	return http.StatusCreated, s.show(p, gitea), nil
}

func (s *Server) edit(r *http.Request, p *Pull, gitea bool) (int, any, error) {
	var in struct{ State string }
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		return 0, nil, err
	}
	if in.State != "" {
		p.State = in.State
	}
	return http.StatusCreated, s.show(p, gitea), nil
}

func (s *Server) merge(r *http.Request, p *Pull, gitea bool) (int, any, error) {
	var in struct {
		CommitTitle string `json:"commit_title"`
		CommitBody  string `json:"commit_message"`
		Method      string `json:"merge_method"`
		SHA         string `json:"sha"`
		Do          string
		Title       string `json:"MergeTitleField"`
		Body        string `json:"MergeMessageField"`
		Head        string `json:"head_commit_id"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		return 0, nil, err
	}
	title, text, method, want := in.CommitTitle, in.CommitBody, in.Method, in.SHA
	if gitea {
		title, text, method, want = in.Title, in.Body, in.Do, in.Head
	}
	if s.beforeMerge != nil {
		s.beforeMerge()
	}
	switch s.refresh(p); {
	case p.State != "open":
		return 0, nil, fail(http.StatusMethodNotAllowed, "Pull Request is not mergeable")
	case s.refuse != "":
		return 0, nil, fail(http.StatusMethodNotAllowed, s.refuse)
	case want != "" && want != p.headSHA && gitea:
		return 0, nil, fail(http.StatusConflict, "head out of date")
	case want != "" && want != p.headSHA:
		return 0, nil, fail(http.StatusConflict, "Head branch was modified. Review and try the merge again.")
	}
	base := s.tip(p.Base)
	tree, err := s.Git("merge-tree", "--write-tree", base, p.headSHA)
	if err != nil {
		return 0, nil, fail(http.StatusMethodNotAllowed, "Pull Request is not mergeable")
	}
	args := []string{"commit-tree", tree, "-p", base, "-m", title + "\n\n" + text}
	if method != "squash" {
		args = append(args, "-p", p.headSHA)
	}
	id, err := s.Git(args...)
	if err == nil {
		_, err = s.Git("update-ref", "refs/heads/"+p.Base, id, base)
	}
	if err != nil {
		return 0, nil, err
	}
	p.State, p.Merged, p.MergeSHA, p.MergedBy = "closed", true, id, "interlock-bot"
	if gitea {
		return http.StatusOK, nil, nil
	}
	return http.StatusOK, map[string]any{"sha": id, "merged": true, "message": "Pull Request successfully merged"}, nil
}

func (s *Server) checks(r *http.Request, commit, what string) (int, any, error) {
	var all []Check
	if s.ci != nil {
		all = s.ci(commit)
	}
	runs, statuses := []any{}, []any{}
	for i, c := range all {
		at := time.Unix(1_700_000_000+int64(i), 0).UTC().Format(time.RFC3339)
		url := fmt.Sprintf("%s/%s/%s/actions/runs/7/jobs/%d", s.URL, s.Owner, s.Name, i+1)
		state := c.Conclusion
		if c.Status != "completed" {
			state = "pending"
		}
		if what == "statuses" || c.Old {
			statuses = append(statuses, map[string]any{
				"id": i + 1, "context": c.Name, "state": state, "status": state, "target_url": url, "description": c.Log, "updated_at": at,
			})
			continue
		}
		app := c.App
		if app == "" {
			app = "github-actions"
		}
		run := map[string]any{
			"id": i + 1, "name": c.Name, "status": c.Status, "head_sha": commit, "html_url": url, "started_at": at,
			"app": map[string]any{"slug": app}, "output": map[string]any{"title": nil, "summary": nil, "text": nil},
		}
		if c.Status == "completed" {
			run["conclusion"] = c.Conclusion
		}
		if app != "github-actions" {
			run["output"] = map[string]any{"title": c.Name, "summary": c.Log}
		}
		runs = append(runs, run)
	}
	first := r.URL.Query().Get("page") == "" || r.URL.Query().Get("page") == "1"
	switch what {
	case "check-runs":
		return http.StatusOK, map[string]any{"total_count": len(runs), "check_runs": runs}, nil
	case "status":
		return http.StatusOK, map[string]any{"state": "pending", "sha": commit, "statuses": statuses, "total_count": len(statuses)}, nil
	case "statuses":
		if !first {
			statuses = []any{}
		}
		return http.StatusOK, statuses, nil
	}
	return 0, nil, fail(http.StatusNotFound, "Not Found")
}

package spec

import (
	"fmt"
	"math"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"interlock/machine"
	"interlock/slice"
)

// What a slice and a policy may be at most.
const (
	MaxTasks     = 1000
	maxTitle     = 200 // characters
	maxCriterion = 4 << 10
	maxDetails   = 64 << 10
	maxCommands  = 100
	maxWords     = 1000
	maxJudges    = 10
	maxSkeptics  = 9
	maxGlobs     = 1000
	maxBudget    = 100
	maxUSD       = slice.USD(10_000_000_000)
	maxTimeout   = slice.Duration(24 * time.Hour)
	maxWait      = slice.Duration(30 * 24 * time.Hour)
	maxCIWait    = slice.Duration(7 * 24 * time.Hour)
	leastRemind  = slice.Duration(time.Minute)
	maxName      = 64
	maxPrices    = 1000
	maxRetries   = 5
)

// slice checks what holds for every slice, wherever it came from.
func (d *document) slice(s slice.Spec) {
	if s.ID != "" {
		d.name("id", s.ID, MaxID)
	}
	d.repo("repo", s.Repo)
	d.base("base", s.Base)
	d.line("title", s.Title, maxTitle, "a title of one line")
	if len(s.Tasks) == 0 {
		d.bad("tasks", "there is no task", "at least one task", "")
	}
	if len(s.Tasks) > MaxTasks {
		d.bad("tasks", fmt.Sprintf("there are %d tasks", len(s.Tasks)), fmt.Sprintf("at most %d", MaxTasks), "cut the work into several slices")
		return
	}
	first := map[string]string{}
	total := 0
	for i, t := range s.Tasks {
		at := fmt.Sprintf("tasks[%d]", i)
		d.unique(first, at+".id", "id", t.ID)
		d.name(at+".id", t.ID, MaxTaskID)
		d.prose(at+".criterion", t.Criterion, maxCriterion, "what must be true at the end, in one sentence")
		if t.Details != "" {
			d.prose(at+".details", t.Details, maxDetails, "what else there is to know")
		}
		total += len(t.Criterion) + len(t.Details)
	}
	if total > MaxBytes {
		d.bad("tasks", fmt.Sprintf("the tasks have %d bytes", total), "at most 1 MiB", "cut the work into several slices")
	}
	for i, name := range s.ExpectedRed {
		d.line(fmt.Sprintf("expected_red[%d]", i), name, 1000, `a check, or a test of one as "check/test"`)
	}
	if len(s.AllowRemovedTests) > maxGlobs {
		d.bad("allow_removed_tests", fmt.Sprintf("there are %d names", len(s.AllowRemovedTests)), fmt.Sprintf("at most %d", maxGlobs), "")
	}
	for i, name := range s.AllowRemovedTests {
		at := fmt.Sprintf("allow_removed_tests[%d]", i)
		d.line(at, name, 1000, "the name of a test, in which * is any text")
		if strings.Trim(name, "*?. ") == "" {
			d.bad(at, fmt.Sprintf("%.60q means every test", name), "names of tests", "")
		}
	}
	if s.Policy != nil {
		d.policy("policy", *s.Policy, true)
	}
	d.notYet(s, false)
}

// policy checks a policy at a path. A part is the policy of a slice, which
// may say nothing on what the repository's says.
func (d *document) policy(at string, p slice.Policy, part bool) {
	d.agents(join(at, "agents"), p.Agents, part)
	if !part && len(p.Checks) == 0 {
		d.bad(join(at, "checks"), "there is no check", "at least one check", "")
	}
	d.commands(join(at, "setup"), p.Setup, false)
	d.commands(join(at, "checks"), p.Checks, true)
	d.commands(join(at, "verify"), p.Verify, true)
	d.commands(join(at, "e2e"), p.E2E, true)
	oneOf(d, join(at, "e2e_unmeasured"), p.E2EUnmeasured, slice.E2EBlocks, slice.E2EDelivers)
	oneOf(d, join(at, "on_over_budget"), p.OnOverBudget, slice.BudgetAborts, slice.BudgetAsks)
	oneOf(d, join(at, "sandbox"), p.Sandbox, slice.SandboxAuto, slice.SandboxRequired, slice.SandboxOff)
	d.globs(join(at, "protected"), p.Protected)
	d.globs(join(at, "frozen"), p.Frozen)
	if len(p.Rubric) > maxCommands {
		d.bad(join(at, "rubric"), fmt.Sprintf("there are %d criteria", len(p.Rubric)), fmt.Sprintf("at most %d", maxCommands), "")
	}
	for i, r := range p.Rubric {
		here := join(at, fmt.Sprintf("rubric[%d]", i))
		d.prose(here+".criterion", r.Criterion, maxCriterion, "a criterion that judges score")
		if d.given(here+".weight", r.Weight != 0) {
			d.between(here+".weight", r.Weight, 1, maxBudget)
		}
	}
	d.budgets(join(at, "budgets"), p.Budgets)
	oneOf(d, join(at, "deliver.to"), machine.Target(p.Deliver.To), machine.ToBranch, machine.ToPublish, machine.ToPropose, machine.ToMerge)
	if r := p.Deliver.Remote; r != "" && !remoteName.MatchString(r) {
		d.repo(join(at, "deliver.remote"), r)
	}
	d.forge(join(at, "deliver"), p.Deliver)
	d.duration(join(at, "quota.max_wait"), p.Quota.MaxWait, maxWait)
	d.duration(join(at, "quota.fallback_after"), p.Quota.FallbackAfter, maxWait)
	d.duration(join(at, "gates.remind"), p.Gates.Remind, maxWait)
	if p.Gates.Remind > 0 && p.Gates.Remind < leastRemind {
		d.bad(join(at, "gates.remind"), fmt.Sprintf("it is %s", time.Duration(p.Gates.Remind)), "at least 1m", "each reminder stays in the history of the slice")
	}
	d.duration(join(at, "gates.expire"), p.Gates.Expire, maxWait)
	d.prices(join(at, "prices"), p.Prices)
	for i, name := range p.Env {
		if isToken(name, p.Deliver) {
			d.bad(join(at, fmt.Sprintf("env[%d]", i)), "it is the forge's token", "nothing that agents or checks could publish with", "")
		}
		if !envName.MatchString(name) {
			d.bad(join(at, fmt.Sprintf("env[%d]", i)), fmt.Sprintf("%.60q is no name of an environment variable", name), "a name such as HTTPS_PROXY, without a value", "")
		}
	}
}

var (
	envName    = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,199}$`)
	remoteName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_-]{0,99}$`)
)

func (d *document) agents(at string, a slice.Agents, part bool) {
	if !part {
		if isZero(a.Implementer) {
			d.bad(at+".implementer", "there is no implementer", "the agent that does the work", "")
		}
		if len(a.Judges) == 0 {
			d.bad(at+".judges", "there is no judge", "at least one judge", "")
		}
	}
	if len(a.Judges) > maxJudges {
		d.bad(at+".judges", fmt.Sprintf("there are %d judges", len(a.Judges)), fmt.Sprintf("at most %d", maxJudges), "")
	}
	first := map[string]string{}
	judges := 0
	for _, r := range roles(a) {
		here := at + "." + r.path
		d.only(here, r)
		if !strings.HasPrefix(r.path, "judges") {
			d.agent(here, *r.agent, part)
			continue
		}
		d.agent(here, *r.agent, false)
		name := r.agent.Name
		if name == "" {
			name = judgeName(judges, len(a.Judges))
		}
		d.unique(first, here+".name", "name", name)
		if slices.Contains(roleNames, name) {
			d.bad(here+".name", fmt.Sprintf("%q is the name of a role", name), "a name of the judge's own", "")
		}
		judges++
	}
}

// only checks what just one kind of role may have.
func (d *document) only(at string, r role) {
	if r.agent.Lens != "" {
		if strings.HasPrefix(r.path, "judges") {
			d.prose(at+".lens", r.agent.Lens, maxCriterion, "what the judge looks for first")
		} else {
			d.bad(at+".lens", "it is no judge", "nothing here", "")
		}
	}
	switch n := r.agent.Count; {
	case r.path != "skeptics" && n != 0:
		d.bad(at+".count", "it is asked alone", "nothing here", "")
	case d.given(at+".count", n != 0):
		d.between(at+".count", n, 1, maxSkeptics)
	}
}

// roleNames are taken: reports name a role or a judge.
var roleNames = []string{"implementer", "advisor", "reconciler", "skeptics"}

// A role is an agent with its place in the policy.
type role struct {
	path  string
	agent *slice.Agent
}

// roles lists the agents that are there.
func roles(a slice.Agents) (list []role) {
	add := func(path string, agent *slice.Agent) {
		if agent != nil && !isZero(*agent) {
			list = append(list, role{path, agent})
		}
	}
	add("implementer", &a.Implementer)
	for i := range a.Judges {
		list = append(list, role{fmt.Sprintf("judges[%d]", i), &a.Judges[i]})
	}
	add("skeptics", a.Skeptics)
	add("advisor", a.Advisor)
	add("reconciler", a.Reconciler)
	return list
}

func isZero(a slice.Agent) bool {
	return a.Name == "" && a.Lens == "" && a.Count == 0 && a.Use == "" && a.Run == nil && a.Model == "" && a.Timeout == 0 && a.USD == nil && a.Fallback == nil
}

func (d *document) agent(at string, a slice.Agent, part bool) {
	if a.Name != "" {
		d.name(at+".name", a.Name, maxName)
	}
	switch {
	case a.Use == "" && part && a.Run == nil:
	case a.Use == "":
		d.bad(at+".use", "it names no adapter", or(adapters), "")
	case !slices.Contains(adapters, string(a.Use)):
		hint := ""
		if meant := Suggest(string(a.Use), adapters); meant != "" {
			hint = fmt.Sprintf("did you mean %q?", meant)
		}
		d.bad(at+".use", fmt.Sprintf("unknown adapter %.60q", a.Use), "one that this version has: "+or(adapters), hint)
	case a.Use == slice.AdapterExternal && len(a.Run) > 0:
		d.bad(at+".run", "it has a command, but the adapter external waits for a report", "no run, or use: command", "")
	case a.Use == slice.AdapterOpencode && a.Model != "" && !strings.Contains(strings.Trim(a.Model, "/"), "/"):
		d.bad(at+".model", fmt.Sprintf("%.60q names no provider", a.Model), "provider/model, as openai/gpt-5.5", "")
	case a.Use == slice.AdapterCommand && len(a.Run) == 0:
		d.bad(at+".run", "it has no command", `the program of the adapter "command" with its arguments`, "")
	}
	if len(a.Run) > 0 {
		d.words(at+".run", a.Run)
	}
	if a.Model != "" {
		d.line(at+".model", a.Model, maxTitle, "the name of a model")
		d.dash(at+".model", a.Model)
	}
	d.duration(at+".timeout", a.Timeout, maxTimeout)
	d.usd(at+".usd", a.USD)
	if f := a.Fallback; f != nil {
		d.agent(at+".fallback", *f, false)
		switch {
		case a.Use == slice.AdapterExternal:
			d.bad(at+".fallback", "nobody outside has a provider's limit", "no fallback, or another adapter", "")
		case f.Use == slice.AdapterExternal:
			d.bad(at+".fallback.use", "nobody waits for a report where a program was asked", "an adapter that runs a program", "")
		case f.Fallback != nil:
			d.bad(at+".fallback.fallback", "a fallback has none of its own", "one fallback", "")
		}
	}
}

var adapters = []string{
	string(slice.AdapterCommand), string(slice.AdapterExternal),
	string(slice.AdapterClaude), string(slice.AdapterCodex), string(slice.AdapterGemini), string(slice.AdapterOpencode),
}

func (d *document) prices(at string, list []slice.Price) {
	if len(list) > maxPrices {
		d.bad(at, fmt.Sprintf("there are %d prices", len(list)), fmt.Sprintf("at most %d", maxPrices), "")
		return
	}
	first := map[string]string{}
	for i, p := range list {
		here := fmt.Sprintf("%s[%d]", at, i)
		d.line(here+".model", p.Model, maxTitle, "the name of a model")
		d.unique(first, here+".model", "model", p.Model)
		d.usd(here+".input", &p.Input)
		d.usd(here+".cached_input", p.CachedInput)
		d.usd(here+".output", &p.Output)
		if p.Input == 0 && p.Output == 0 {
			d.bad(here, "it costs nothing", "what a million tokens cost, as input and output", "without a price, a call is charged what was reserved for it")
		}
		d.line(here+".source", p.Source, maxTitle, "where the price is from")
		if _, err := time.Parse(time.DateOnly, p.Date); err != nil {
			d.bad(here+".date", fmt.Sprintf("%.60q is no date", p.Date), "when the price was so, as 2026-11-30", "")
		}
	}
}

func (d *document) commands(at string, list []slice.Command, measures bool) {
	if len(list) > maxCommands {
		d.bad(at, fmt.Sprintf("there are %d commands", len(list)), fmt.Sprintf("at most %d", maxCommands), "")
		return
	}
	first := map[string]string{}
	for i, c := range list {
		here := fmt.Sprintf("%s[%d]", at, i)
		if c.Name != "" {
			d.name(here+".name", c.Name, maxName)
		}
		if len(c.Run) > 0 {
			d.unique(first, here+".name", "name", NameOf(c))
		}
		d.words(here+".run", c.Run)
		if why := constant(c.Run); measures && why != "" {
			d.bad(here+".run", fmt.Sprintf("%.60q measures nothing: %s", c.Run.String(), why), "a command that fails when the work is wrong", "")
		}
		d.duration(here+".timeout", c.Timeout, maxTimeout)
		oneOf(d, here+".reads", c.Reads, slice.ReadsExit, slice.ReadsGo, slice.ReadsJUnit, slice.ReadsTAP, slice.ReadsCargo)
		d.reports(here, c)
		switch {
		case c.Retries != 0 && !measures:
			d.bad(here+".retries", "it prepares, and is not run again", "nothing here", "")
		case d.given(here+".retries", c.Retries != 0):
			d.between(here+".retries", c.Retries, 0, maxRetries)
		}
		if measures && NameOf(c) == slice.GuardCheck {
			d.bad(here+".name", fmt.Sprintf("%q is what the guard's own result is named", slice.GuardCheck), "another name", "")
		}
		d.globs(here+".inputs", c.Inputs)
	}
}

// reports: only JUnit XML is read from files, and only from files.
func (d *document) reports(at string, c slice.Command) {
	switch {
	case c.Reads == slice.ReadsJUnit && len(c.Reports) == 0:
		d.bad(at+".reports", "it names no files", "globs of the JUnit XML that the command writes, such as target/surefire-reports/*.xml", "")
	case c.Reads != slice.ReadsJUnit && len(c.Reports) > 0:
		d.bad(at+".reports", "they are not read", "nothing here, or reads: junit", "")
	}
	d.globs(at+".reports", c.Reports)
	for i, g := range c.Reports {
		if strings.HasPrefix(g, ":") {
			d.bad(fmt.Sprintf("%s.reports[%d]", at, i), fmt.Sprintf("%.60q has a magic word of git", g), "a plain glob", "")
		} else if _, err := path.Match(g, ""); err != nil {
			d.bad(fmt.Sprintf("%s.reports[%d]", at, i), fmt.Sprintf("%.60q is no glob", g), "a glob such as build/test-results/**/*.xml", "")
		}
	}
}

// NameOf returns the name of a command: its own, or one made of its words.
func NameOf(c slice.Command) string {
	if c.Name != "" {
		return c.Name
	}
	words := c.Run.String()
	if len(c.Run) > 0 && !isShell(c.Run) {
		words = path.Base(c.Run[0]) + " " + strings.Join(c.Run[1:], " ")
	}
	name := slug(words)
	name = strings.TrimRight(name[:min(len(name), 40)], "-")
	if nameFlaw(name, maxName) != "" {
		return "check-" + name
	}
	return name
}

func (d *document) words(at string, argv slice.Argv) {
	if len(argv) == 0 || strings.TrimSpace(argv[0]) == "" {
		d.bad(at, "there is no command", "a program with its arguments", "")
		return
	}
	if len(argv) > maxWords {
		d.bad(at, fmt.Sprintf("it has %d words", len(argv)), fmt.Sprintf("at most %d", maxWords), "")
	}
	if isShell(argv) && strings.TrimSpace(argv[2]) == "" {
		d.bad(at, "the line of shell is empty", "a command", "")
	}
	for i, w := range argv {
		if strings.Contains(w, "\x00") {
			d.bad(fmt.Sprintf("%s[%d]", at, i), "it has a NUL", "text", "")
		}
	}
}

func isShell(argv slice.Argv) bool {
	if len(argv) < 3 || !strings.HasPrefix(argv[1], "-") || !strings.Contains(argv[1], "c") {
		return false
	}
	switch path.Base(argv[0]) {
	case "sh", "bash", "dash", "zsh", "ksh":
		return true
	}
	return false
}

var (
	constants  = regexp.MustCompile(`^(true|:|exit 0|/bin/true|/usr/bin/true|\( *(true|:) *\)|\{ *(true|:) *;? *\})$`)
	lineEnding = regexp.MustCompile(`[;\s]+$`)
	remark     = regexp.MustCompile(`(^|\s)#[^'"\n]*$`)
)

// constant says why a check ends the same whatever it finds, or nothing.
func constant(argv slice.Argv) string {
	if !isShell(argv) {
		if constants.MatchString(strings.Join(argv, " ")) {
			return "it always succeeds"
		}
		return ""
	}
	line := remark.ReplaceAllString(argv[2], "")
	line = strings.TrimSpace(lineEnding.ReplaceAllString(line, ""))
	at := strings.LastIndexAny(line, ";&|\n")
	last := strings.TrimSpace(line[at+1:])
	switch {
	case !constants.MatchString(last):
		return ""
	case at < 0:
		return "it always succeeds"
	case at > 0 && line[at-1:at+1] == "&&":
		return "" // its success needs the one before
	case at > 0 && line[at-1:at+1] == "||":
		at--
	}
	return fmt.Sprintf("it ends in %q, which always succeeds", strings.TrimSpace(line[at:]))
}

func (d *document) globs(at string, list []string) {
	if len(list) > maxGlobs {
		d.bad(at, fmt.Sprintf("there are %d globs", len(list)), fmt.Sprintf("at most %d", maxGlobs), "")
		return
	}
	for i, g := range list {
		here := fmt.Sprintf("%s[%d]", at, i)
		const want = "a glob of paths inside the repository, such as docs/**"
		switch {
		case g == "":
			d.bad(here, "it is empty", want, "")
		case len(g) > 1000:
			d.bad(here, "it is too long", want, "")
		case strings.HasPrefix(g, "/"):
			d.bad(here, fmt.Sprintf("%.60q begins with a slash", g), want, "paths are relative to the repository's root")
		case strings.ContainsFunc(g, unicode.IsControl):
			d.bad(here, fmt.Sprintf("%.60q has a control character", g), want, "")
		}
		for _, part := range strings.Split(g, "/") {
			if part == ".." {
				d.bad(here, fmt.Sprintf("%.60q leaves the repository", g), want, "")
				break
			}
		}
	}
}

func (d *document) budgets(at string, b slice.Budgets) {
	for _, x := range counters(&b) {
		if *x.n != nil {
			d.between(at+"."+x.key, **x.n, 0, maxBudget)
		}
	}
	d.usd(at+".usd", b.USD)
	for _, r := range roleCaps(&b.Roles) {
		d.usd(at+".roles."+r.role, *r.usd)
	}
}

// A counter is one budget of retries with its default.
type counter struct {
	key string
	n   **int
	def int
}

func counters(b *slice.Budgets) []counter {
	def := machine.DefaultBudgets()
	return []counter{
		{"checks", &b.Checks, def.Checks}, {"judge", &b.Judge, def.Judge}, {"corrections", &b.Corrections, def.Corrections},
		{"reconcile", &b.Reconcile, def.Reconcile}, {"moves", &b.Moves, def.Moves}, {"ci", &b.CI, def.CI},
		{"discards", &b.Discards, def.Discards}, {"lost", &b.Lost, def.Lost},
	}
}

// given says whether a path is there; without a file, whether its value is not zero.
func (d *document) given(path string, notZero bool) bool {
	if d.at == nil {
		return notZero
	}
	return d.at[path] != nil
}

func (d *document) between(at string, n, low, high int) {
	if n < low || n > high {
		d.bad(at, fmt.Sprintf("it is %d", n), fmt.Sprintf("a number from %d to %d", low, high), "")
	}
}

func (d *document) duration(at string, t, most slice.Duration) {
	if d.given(at, t != 0) && (t <= 0 || t > most) {
		d.bad(at, fmt.Sprintf("it is %s", time.Duration(t)), fmt.Sprintf("more than 0 and at most %gh", math.Round(time.Duration(most).Hours())), "")
	}
}

func (d *document) usd(at string, u *slice.USD) {
	if u != nil && (*u < 0 || *u > maxUSD) {
		d.bad(at, "it is "+u.String(), "from $0 to "+maxUSD.String(), "")
	}
}

func oneOf[T ~string](d *document, at string, v T, known ...T) {
	words := make([]string, len(known))
	for i, k := range known {
		if v == k || v == "" {
			return
		}
		words[i] = string(k)
	}
	hint := ""
	if meant := Suggest(string(v), words); meant != "" {
		hint = fmt.Sprintf("did you mean %q?", meant)
	}
	d.bad(at, fmt.Sprintf("it is %.60q", v), or(words), hint)
}

func (d *document) unique(first map[string]string, at, what, v string) {
	if v == "" {
		return
	}
	if other, twice := first[v]; twice {
		d.bad(at, fmt.Sprintf("duplicate %s %.70q (%s)", what, v, d.where(other)), what+"s that differ", "")
		return
	}
	first[v] = at
	if d.at != nil && d.at[at] == nil {
		first[v] = parent(at)
	}
}

func (d *document) name(at, v string, most int) {
	why := nameFlaw(v, most)
	if v != "" {
		why = fmt.Sprintf("%.70q: %s", v, why)
	}
	if nameFlaw(v, most) != "" {
		d.bad(at, why, wantName(most), "")
	}
}

// line checks one line of text of at most so many characters.
func (d *document) line(at, v string, most int, want string) {
	switch {
	case strings.TrimSpace(v) == "":
		d.bad(at, "it is missing or blank", want, "")
	case utf8.RuneCountInString(v) > most:
		d.bad(at, fmt.Sprintf("it has %d characters", utf8.RuneCountInString(v)), fmt.Sprintf("at most %d", most), "")
	case !utf8.ValidString(v) || strings.ContainsFunc(v, isBreak):
		d.bad(at, "it has a line break or control character", want, "")
	}
}

func isBreak(r rune) bool { return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' }

// prose checks text of at most so many bytes.
func (d *document) prose(at, v string, most int, want string) {
	switch {
	case strings.TrimSpace(v) == "":
		d.bad(at, "it is missing or blank", want, "")
	case len(v) > most:
		d.bad(at, fmt.Sprintf("it has %d bytes", len(v)), fmt.Sprintf("at most %d", most), "")
	case !utf8.ValidString(v) || strings.ContainsFunc(v, func(r rune) bool { return unicode.IsControl(r) && !strings.ContainsRune("\n\r\t", r) }):
		d.bad(at, "it has a control character", "text", "")
	}
}

func (d *document) dash(at, v string) bool {
	if strings.HasPrefix(v, "-") {
		d.bad(at, fmt.Sprintf("%.60q begins with a dash", v), "a value that no program takes for an option", "")
		return true
	}
	return false
}

var (
	helper  = regexp.MustCompile(`^[A-Za-z0-9+.-]+::`)
	scheme  = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9+.-]*)://`)
	scpLike = regexp.MustCompile(`^(?:[A-Za-z0-9_][A-Za-z0-9._-]*@)?[A-Za-z0-9_][A-Za-z0-9._-]*:[^-:].*$`)
	token   = regexp.MustCompile(`^(gh[a-z]_|github_pat_|glpat-)`)
)

// repo checks a place of a repository: a path, a URL, or git's user@host:path.
func (d *document) repo(at, v string) {
	const want = "the path of a repository, or its address as https://…, ssh://…, file://… or git@host:path"
	refuse := func(got, hint string) { d.bad(at, got, want, hint) }
	switch {
	case v == "":
		refuse("it is missing", "")
	case len(v) > 4096:
		refuse("it is too long", "")
	case !utf8.ValidString(v) || strings.ContainsFunc(v, isBreak):
		refuse("it has a line break or control character", "")
	case d.dash(at, v):
	case helper.MatchString(v):
		refuse(fmt.Sprintf("%.60q runs a helper of git", v), "")
	case scheme.MatchString(v):
		d.url(at, v, want)
	case strings.Contains(v[:max(strings.IndexByte(v+"/", '/'), 0)], ":"):
		if !scpLike.MatchString(v) {
			refuse(fmt.Sprintf("%.60q is no address", v), "write a path that has a colon as ./"+v)
		}
	case strings.HasPrefix(v, "~"):
		refuse(fmt.Sprintf("%.60q begins with a tilde", v), "write the path out: no shell reads it")
	}
}

func (d *document) url(at, v, want string) {
	u, err := url.Parse(v)
	if err != nil {
		d.bad(at, "it is no URL", want, "")
		return
	}
	_, secret := u.User.Password()
	switch s := strings.ToLower(u.Scheme); {
	case secret || token.MatchString(u.User.Username()):
		d.bad(at, "it has a password or token", "an address without a secret", "addresses are recorded: leave the secret to a credential helper or an SSH key")
	case s == "http" || s == "git":
		d.bad(at, fmt.Sprintf("%s:// proves neither side", s), want, "use https or ssh")
	case s != "https" && s != "ssh" && s != "file":
		d.bad(at, fmt.Sprintf("unknown scheme %.60q", u.Scheme), want, "")
	case s == "file" && (u.Host != "" && u.Host != "localhost" || u.Path == ""):
		d.bad(at, fmt.Sprintf("%.60q is no path on this host", v), "file:///absolute/path", "")
	case s != "file" && (u.Hostname() == "" || strings.HasPrefix(u.Hostname(), "-") || strings.HasPrefix(u.User.Username(), "-")):
		d.bad(at, fmt.Sprintf("%.60q names no host", v), want, "")
	case s != "file" && strings.Trim(u.Path, "/") == "":
		d.bad(at, fmt.Sprintf("%.60q names no repository on its host", v), want, "")
	}
}

// base checks the rules of git check-ref-format for a branch or tag; full
// commit ids keep them too.
func (d *document) base(at, v string) {
	const want = "a branch, a tag or a full commit id"
	bad := v == "@" || strings.HasPrefix(v, "/") || strings.HasSuffix(v, "/") || strings.HasSuffix(v, ".") ||
		strings.Contains(v, "..") || strings.Contains(v, "//") || strings.Contains(v, "@{") ||
		strings.ContainsAny(v, " ~^:?*[\\") || strings.ContainsFunc(v, unicode.IsControl) || !utf8.ValidString(v)
	for _, part := range strings.Split(v, "/") {
		bad = bad || strings.HasPrefix(part, ".") || strings.HasSuffix(part, ".lock")
	}
	switch {
	case v == "":
		d.bad(at, "it is missing", want, "")
	case d.dash(at, v):
	case len(v) > 255:
		d.bad(at, "it is too long", want, "")
	case bad:
		d.bad(at, fmt.Sprintf("%.60q is no name that git allows", v), want, "")
	}
}

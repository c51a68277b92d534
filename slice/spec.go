// Package slice is the contract: every type and name that crosses a border,
// whether between a person and the program, the workflow and an activity, or
// one run and the next. It holds no behaviour beyond reading and writing them.
package slice

// Spec is what a person asks for: one piece of work on one repository.
type Spec struct {
	// ID is the slice's id and the workflow id. Empty means: repository key and title.
	ID string `json:"id,omitempty"`
	// Repo is where the repository is: an absolute path or a URL.
	Repo string `json:"repo"`
	// Base is the branch, tag or full commit id that the work begins from.
	Base  string `json:"base"`
	Title string `json:"title"`
	Tasks []Task `json:"tasks"`
	// ExpectedRed names checks, or tests of a check as "check/test", that may
	// be red at the base.
	ExpectedRed []string `json:"expected_red,omitempty"`
	// AllowRemovedTests names tests that the work may remove. It forces the plan gate.
	AllowRemovedTests []string `json:"allow_removed_tests,omitempty"`
	// Policy tightens the repository's policy, or is the policy of a
	// repository that has none.
	Policy *Policy `json:"policy,omitempty"`
}

// Task is one acceptance criterion of a slice.
type Task struct {
	ID string `json:"id"`
	// Criterion is what must be true at the end, in one sentence.
	Criterion string `json:"criterion"`
	// Details is what else there is to know.
	Details string `json:"details,omitempty"`
}

// Policy is interlock.yaml at the root of the repository, read at the base commit.
type Policy struct {
	Agents Agents `json:"agents"`
	// Setup prepares a fresh checkout for the checks.
	Setup []Command `json:"setup,omitempty"`
	// Checks measure a candidate; at least one is needed.
	Checks []Command `json:"checks"`
	// Verify measures the whole before delivery, in a fresh checkout. Empty means: Checks.
	Verify []Command `json:"verify,omitempty"`
	// E2E measures the whole once more, end to end. Empty means: no such step.
	E2E           []Command     `json:"e2e,omitempty"`
	E2EUnmeasured E2EUnmeasured `json:"e2e_unmeasured,omitempty"`
	// Protected are globs of paths that no candidate may change.
	Protected []string `json:"protected,omitempty"`
	// Frozen are globs of tests that no candidate may change.
	Frozen  []string `json:"frozen,omitempty"`
	Rubric  []Rubric `json:"rubric,omitempty"`
	Budgets Budgets  `json:"budgets,omitzero"`
	Gates   Gates    `json:"gates,omitzero"`
	Deliver Deliver  `json:"deliver,omitzero"`
	Quota   Quota    `json:"quota,omitzero"`
	// Prices are for programs that tell tokens but no cost.
	Prices []Price `json:"prices,omitempty"`
	// OnOverBudget says what becomes of a call that the money does not cover.
	OnOverBudget OnOverBudget `json:"on_over_budget,omitempty"`
	// Env names the variables of the worker that agents and checks may see.
	Env     []string `json:"env,omitempty"`
	Sandbox Sandbox  `json:"sandbox,omitempty"`
}

// Command is a program of the policy: a check, or a line of setup.
type Command struct {
	Name string `json:"name,omitempty"`
	// Run is the argument list. A single string in a policy file is run by /bin/sh -c.
	Run Argv `json:"run"`
	// Timeout ends the command; 0 means DefaultCheckTimeout.
	Timeout Duration `json:"timeout,omitempty"`
	// Reads says how the output is read; empty means ReadsExit.
	Reads Reads `json:"reads,omitempty"`
	// Reports are globs of the files that ReadsJUnit reads.
	Reports []string `json:"reports,omitempty"`
	// Retries is how often a check that is red is run again. One that is green
	// then is flaky.
	Retries int `json:"retries,omitempty"`
	// Inputs are globs: a setup line runs again when a file that they match changes.
	Inputs []string `json:"inputs,omitempty"`
}

// Reads is how the output of a check becomes a set of tests.
type Reads string

// The readers.
const (
	ReadsExit  Reads = "exit"  // the exit code alone
	ReadsGo    Reads = "go"    // go test -json
	ReadsJUnit Reads = "junit" // files of JUnit XML
	ReadsTAP   Reads = "tap"   // the Test Anything Protocol, 13 and 14
	ReadsCargo Reads = "cargo" // cargo test and cargo nextest, text or JSON
)

// E2EUnmeasured says what becomes of a slice whose e2e could not be measured.
type E2EUnmeasured string

// The choices; empty means E2EBlocks.
const (
	E2EBlocks   E2EUnmeasured = "block"
	E2EDelivers E2EUnmeasured = "deliver"
)

// OnOverBudget says what becomes of a slice whose money does not cover the call
// that is due.
type OnOverBudget string

// The choices; empty means BudgetAborts.
const (
	BudgetAborts OnOverBudget = "abort"
	BudgetAsks   OnOverBudget = "ask"
)

// Sandbox says whether agents are kept apart from the host by the system: where
// that works, only where it works, or never.
type Sandbox string

// The choices; empty means SandboxAuto.
const (
	SandboxAuto     Sandbox = "auto"
	SandboxRequired Sandbox = "required"
	SandboxOff      Sandbox = "off"
)

// Agents says which agent program takes which role.
type Agents struct {
	Implementer Agent   `json:"implementer"`
	Judges      []Agent `json:"judges"`
	Skeptics    *Agent  `json:"skeptics,omitempty"`
	Advisor     *Agent  `json:"advisor,omitempty"`
	Reconciler  *Agent  `json:"reconciler,omitempty"`
}

// Agent is one agent program in one role.
type Agent struct {
	// Name tells judges apart; empty means the role, or the role and its place.
	Name string `json:"name,omitempty"`
	// Lens is what a judge looks for first. Empty means everything, and one of
	// DefaultLenses each for several judges.
	Lens string `json:"lens,omitempty"`
	// Count is how many skeptics look at one finding; 0 means DefaultSkeptics.
	Count int `json:"count,omitempty"`
	// Use is the adapter.
	Use Adapter `json:"use"`
	// Run is the argument list of the command adapter; for an adapter that knows
	// its program, how it is begun, if it is not found in PATH by its name.
	Run Argv `json:"run,omitempty"`
	// Model is the model that must answer; empty means the program's own choice.
	Model string `json:"model,omitempty"`
	// Timeout ends a call; 0 means DefaultCallTimeout.
	Timeout Duration `json:"timeout,omitempty"`
	// USD is the most that one call may cost, and what is charged when its
	// cost is not known. nil means DefaultCallUSD.
	USD *USD `json:"usd,omitempty"`
	// Fallback takes over when the provider's limit lasts too long.
	Fallback *Agent `json:"fallback,omitempty"`
}

// DefaultSkeptics is how many skeptics look at one finding.
const DefaultSkeptics = 3

// DefaultLenses are what several judges look for, one each, if policy does not say.
func DefaultLenses() []string {
	return []string{"does it solve the task", "is it tested", "does it stay in scope"}
}

// Adapter names the code that drives one agent program.
type Adapter string

// The adapters.
const (
	// AdapterCommand runs any program: a brief in, an answer out.
	AdapterCommand Adapter = "command"
	// AdapterExternal waits for somebody to report the answer: pull mode.
	AdapterExternal Adapter = "external"
	// The others drive a program that they know.
	AdapterClaude   Adapter = "claude"   // Claude Code
	AdapterCodex    Adapter = "codex"    // Codex CLI
	AdapterGemini   Adapter = "gemini"   // Gemini CLI
	AdapterOpencode Adapter = "opencode" // opencode
)

// Price is what tokens of a model cost, in US dollars for a million. It is used
// where a program tells its tokens but not its cost.
type Price struct {
	Model string `json:"model"`
	Input USD    `json:"input"`
	// CachedInput is for input that the provider had in its cache; nil means Input.
	CachedInput *USD `json:"cached_input,omitempty"`
	Output      USD  `json:"output"`
	// Source says where the price is from, Date (2006-01-02) when it was so.
	Source string `json:"source"`
	Date   string `json:"date"`
}

// Rubric is one criterion that judges score from 1 to 5.
type Rubric struct {
	Criterion string `json:"criterion"`
	// Weight is relative to the other criteria; 0 means 1.
	Weight int `json:"weight,omitempty"`
}

// Budgets are the retries and the money of a slice; nil means the default.
type Budgets struct {
	Checks      *int `json:"checks,omitempty"`
	Judge       *int `json:"judge,omitempty"`
	Corrections *int `json:"corrections,omitempty"`
	Reconcile   *int `json:"reconcile,omitempty"`
	Moves       *int `json:"moves,omitempty"`
	CI          *int `json:"ci,omitempty"`
	Discards    *int `json:"discards,omitempty"`
	Lost        *int `json:"lost,omitempty"`
	// USD is the cap of the slice; nil means DefaultSliceUSD.
	USD *USD `json:"usd,omitempty"`
	// Roles are the caps of roles within it.
	Roles RoleBudgets `json:"roles,omitzero"`
}

// RoleBudgets are what all calls of a role may cost in a run; nil means that only
// the cap of the slice bounds them.
type RoleBudgets struct {
	Implementer *USD `json:"implementer,omitempty"`
	Judge       *USD `json:"judge,omitempty"`
	Advisor     *USD `json:"advisor,omitempty"`
	Reconciler  *USD `json:"reconciler,omitempty"`
}

// Gates are the steps at which a person must answer.
type Gates struct {
	Plan    bool `json:"plan,omitempty"`
	Publish bool `json:"publish,omitempty"`
	Merge   bool `json:"merge,omitempty"`
	// Remind says how often a person who has not answered is reminded; 0
	// means DefaultRemind.
	Remind Duration `json:"remind,omitempty"`
	// Expire is after how long an unanswered gate asks anew; 0 means
	// DefaultExpire. It approves nothing and rejects nothing.
	Expire Duration `json:"expire,omitempty"`
}

// Deliver says how far a slice is delivered.
type Deliver struct {
	// To is one of the machine's targets; empty means branch.
	To string `json:"to,omitempty"`
	// Remote is the name of a remote of the repository, or a URL; empty means origin.
	Remote string `json:"remote,omitempty"`
	// Forge is the code host of the remote; nil means: as the address of the remote says.
	Forge *Forge `json:"forge,omitempty"`
	// Checks are the names of what CI must report green before a merge. Merging
	// at a forge needs it; an empty list says that there is no CI.
	Checks []string `json:"checks,omitzero"`
	// CITimeout is how long CI is waited for; 0 means DefaultCITimeout.
	CITimeout Duration `json:"ci_timeout,omitempty"`
	// Method is how the forge merges; empty means MergeCommit.
	Method MergeMethod `json:"method,omitempty"`
}

// Forge is a code host.
type Forge struct {
	// Kind is what it is; empty means: as the address of the remote says.
	Kind ForgeKind `json:"kind,omitempty"`
	// BaseURL is where people see it; empty means the host of the remote.
	BaseURL string `json:"base_url,omitempty"`
	// Repo is owner/name; empty means: as the address of the remote says.
	Repo string `json:"repo,omitempty"`
	// TokenEnv names the variable of the worker that has the token; empty means
	// GITHUB_TOKEN for GitHub.com, and INTERLOCK_FORGE_TOKEN for all others.
	TokenEnv string `json:"token_env,omitempty"`
}

// ForgeKind is a kind of code host.
type ForgeKind string

// The kinds.
const (
	ForgeGit    ForgeKind = "git" // a plain remote: it has no proposals and no CI
	ForgeGitHub ForgeKind = "github"
	ForgeGitea  ForgeKind = "gitea" // and Forgejo
)

// MergeMethod is how a forge merges.
type MergeMethod string

// The methods.
const (
	MergeCommit MergeMethod = "merge"
	MergeSquash MergeMethod = "squash"
)

// Quota says how long a provider's limit is waited for.
type Quota struct {
	// Wait is false if a limit ends the slice at once; nil means true.
	Wait *bool `json:"wait,omitempty"`
	// MaxWait ends the slice after so long; 0 means DefaultMaxWait.
	MaxWait Duration `json:"max_wait,omitempty"`
	// FallbackAfter hands a role over to its fallback, if it has one, when a
	// limit lasts longer; 0 means DefaultFallbackAfter.
	FallbackAfter Duration `json:"fallback_after,omitempty"`
}

package spec

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"interlock/slice"
)

// file parses a policy, with lines added to one that is fine.
func file(t *testing.T, more string) *slice.Policy {
	p, err := ParsePolicy("interlock.yaml", []byte(`agents:
  implementer: {use: command, run: ./agent, timeout: 10m, usd: 2}
  judges: [{use: command, run: ./judge}]
checks: [{run: make test}]
`+more))
	require.NoError(t, err)
	return &p
}

// own parses the policy of a slice.
func own(t *testing.T, text string) *slice.Policy {
	s, err := ParseSlice("slice.yaml", []byte("repo: /x\nbase: main\ntitle: t\ntasks: [{id: a, criterion: c}]\npolicy: {"+text+"}\n"))
	require.NoError(t, err)
	return s.Policy
}

func TestMergeOfOne(t *testing.T) {
	p, err := Merge(file(t, ""), nil)
	require.NoError(t, err)
	require.Equal(t, "make-test", p.Checks[0].Name)
	require.Equal(t, "judge", p.Agents.Judges[0].Name)
	require.Equal(t, "implementer", p.Agents.Implementer.Name)
	require.Equal(t, slice.Agent{Name: "advisor", Use: slice.AdapterCommand, Run: slice.Shell("./judge")}, Advisor(p))

	q, err := Merge(nil, file(t, ""))
	require.NoError(t, err)
	require.Equal(t, p, q)

	_, err = Merge(nil, nil)
	require.ErrorContains(t, err, "policy: there is none: expected a policy; write interlock.yaml")
	_, err = Merge(nil, own(t, "env: [A]"))
	require.ErrorContains(t, err, "policy.agents.implementer: there is no implementer")
	require.ErrorContains(t, err, "policy.checks: there is no check")
}

func TestMergeTightens(t *testing.T) {
	repo := file(t, "e2e_unmeasured: deliver\nbudgets: {checks: 3, usd: 5}\ndeliver: {to: publish}\nenv: [A, B]\nsandbox: \"off\"\n")
	before := *file(t, "e2e_unmeasured: deliver\nbudgets: {checks: 3, usd: 5}\ndeliver: {to: publish}\nenv: [A, B]\nsandbox: \"off\"\n")
	p, err := Merge(repo, own(t, `
  agents: {implementer: {timeout: 1m, usd: 0.5}, judges: [{use: command, run: ./second}], advisor: {use: command, run: ./advise}},
  checks: [{run: make lint}], verify: [{run: make all}], e2e: [{run: ./e2e}], e2e_unmeasured: block, rubric: [{criterion: small}],
  budgets: {checks: 1, judge: 0, usd: 1}, deliver: {to: branch, remote: origin}, env: [B], sandbox: auto`))
	require.NoError(t, err)
	require.Equal(t, before, *repo, "the repository's policy is not touched")
	require.Equal(t, time.Minute, time.Duration(p.Agents.Implementer.Timeout))
	require.Equal(t, slice.USD(500_000), *p.Agents.Implementer.USD)
	require.Equal(t, slice.Shell("./agent"), p.Agents.Implementer.Run)
	require.Equal(t, []string{"judge-1", "judge-2"}, []string{p.Agents.Judges[0].Name, p.Agents.Judges[1].Name})
	require.Equal(t, "advisor", Advisor(p).Name)
	require.Equal(t, slice.Shell("./advise"), Advisor(p).Run)
	commands := func(list []slice.Command) (names []string) {
		for _, c := range list {
			names = append(names, c.Name)
		}
		return names
	}
	require.Equal(t, []string{"make-test", "make-lint"}, commands(p.Checks))
	require.Equal(t, []string{"make-test", "make-lint", "make-all"}, commands(p.Verify))
	require.Equal(t, []string{"e2e"}, commands(p.E2E))
	require.Equal(t, slice.E2EBlocks, p.E2EUnmeasured)
	require.Equal(t, slice.SandboxAuto, p.Sandbox)
	require.Equal(t, "branch", p.Deliver.To)
	require.Equal(t, []string{"B"}, p.Env)
	r := Rules(slice.Spec{}, p)
	require.Equal(t, []int{1, 0, 2}, []int{r.Budgets.Checks, r.Budgets.Judge, r.Budgets.Corrections})
	require.Equal(t, int64(1_000_000), r.CapMicroUSD)
	require.NoError(t, ValidatePolicy(p))
}

func TestMergeNeverLoosens(t *testing.T) {
	for text, want := range map[string]string{
		"agents: {implementer: {use: command, run: ./other}}":       `policy.agents.implementer.run: it is "./other"`,
		"agents: {implementer: {model: small}}":                     `policy.agents.implementer.model: it is "small"`,
		"agents: {implementer: {timeout: 11m}}":                     "policy.agents.implementer.timeout: it is 11m0s: expected at most 10m0s",
		"agents: {implementer: {usd: 2.01}}":                        "policy.agents.implementer.usd: it is $2.01: expected at most $2.00",
		"agents: {judges: [{name: judge-1, use: command, run: a}]}": "",
		"setup: [{run: a}]":                                         "policy.setup: the repository has a policy",
		"checks: [{run: make test}]":                                `policy.checks[1].name: duplicate name "make-test"`,
		"e2e_unmeasured: deliver":                                   `policy.e2e_unmeasured: it is "deliver": expected "block"`,
		"budgets: {checks: 3}":                                      "policy.budgets.checks: it is 3: expected at most 2",
		"budgets: {usd: 20.01}":                                     "policy.budgets.usd: it is $20.01: expected at most $20.00",
		"deliver: {to: publish}":                                    `policy.deliver.to: it is "publish": expected "branch", or what is stricter; a slice can tighten`,
		"deliver: {remote: other}":                                  `policy.deliver.remote: it is "other"`,
		"env: [A, C]":                                               `policy.env: "C" is not in the repository's env`,
		`sandbox: "off"`:                                            `policy.sandbox: it is "off": expected "auto"`,
	} {
		_, err := Merge(file(t, "env: [A]\n"), own(t, text))
		if want == "" {
			want = `duplicate name "judge-1"`
		}
		require.ErrorContains(t, err, want, text)
	}
}

package spec

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"interlock/machine"
	"interlock/slice"
)

// Merge returns the policy in force: the repository's, tightened by the
// slice's own; or the slice's own, if the repository has none. Every command
// and judge in it has a name. Errors name the place in the slice's policy.
//
// A slice may add checks, judges, rubrics, globs and gates, set an advisor or
// reconciler where there is none, and lower budgets, timeouts and targets. It may
// not change an agent's program or the setup, nor raise or remove anything, nor
// bring skeptics of its own, who could refute what judges find.
func Merge(repo, own *slice.Policy) (slice.Policy, error) {
	d := &document{failed: map[string]bool{}}
	var p slice.Policy
	switch {
	case repo == nil && own == nil:
		d.bad("policy", "there is none", "a policy",
			"write "+slice.PolicyFile+" at the root of the repository (interlock init does), or a policy into the slice")
		return p, d.errs.sorted()
	case repo == nil:
		p = *own
	case own == nil:
		p = *repo
	default:
		p = d.tighten(*repo, *own)
	}
	if len(d.errs) == 0 {
		d.policy("policy", p, false)
		d.notYet(slice.Spec{Policy: &p}, false)
	}
	return named(p), d.errs.sorted()
}

// Advisor returns the agent that gives advice: the first judge's program
// where the policy names none. It has no session in common with the judge.
func Advisor(p slice.Policy) slice.Agent {
	if p.Agents.Advisor != nil {
		return *p.Agents.Advisor
	}
	a := p.Agents.Judges[0]
	a.Name = "advisor"
	return a
}

// Rules returns what a policy in force decides for the machine.
func Rules(s slice.Spec, p slice.Policy) machine.Rules {
	r := machine.Rules{
		CapMicroUSD: int64(usdOr(p.Budgets.USD, slice.DefaultSliceUSD)),
		PlanGate:    p.Gates.Plan || len(s.AllowRemovedTests) > 0,
		PublishGate: p.Gates.Publish, MergeGate: p.Gates.Merge,
		E2E: len(p.E2E) > 0, DeliverUnmeasured: p.E2EUnmeasured == slice.E2EDelivers,
		AskOverBudget: p.OnOverBudget == slice.BudgetAsks,
		DeliverTo:     machine.Target(cmp.Or(p.Deliver.To, string(machine.ToBranch))),
	}
	n := func(at *int, def int) int {
		if at == nil {
			return def
		}
		return *at
	}
	b, def := p.Budgets, machine.DefaultBudgets()
	r.Budgets = machine.Counts{
		Checks: n(b.Checks, def.Checks), Judge: n(b.Judge, def.Judge), Corrections: n(b.Corrections, def.Corrections),
		Reconcile: n(b.Reconcile, def.Reconcile), Moves: n(b.Moves, def.Moves), CI: n(b.CI, def.CI),
		Discards: n(b.Discards, def.Discards), Lost: n(b.Lost, def.Lost),
	}
	return r
}

// RoleCaps returns what each role may spend, in millionths of a US dollar, for
// those that have a cap of their own.
func RoleCaps(p slice.Policy) map[string]int64 {
	caps := map[string]int64{}
	for _, r := range roleCaps(&p.Budgets.Roles) {
		if *r.usd != nil {
			caps[r.role] = int64(**r.usd)
		}
	}
	return caps
}

type roleCap struct {
	role string
	usd  **slice.USD
}

func roleCaps(b *slice.RoleBudgets) []roleCap {
	return []roleCap{{slice.RoleImplementer, &b.Implementer}, {slice.RoleJudge, &b.Judge},
		{slice.RoleAdvisor, &b.Advisor}, {slice.RoleReconciler, &b.Reconciler}}
}

func usdOr(u *slice.USD, def slice.USD) slice.USD {
	if u == nil {
		return def
	}
	return *u
}

// named returns p with the default names written out.
func named(p slice.Policy) slice.Policy {
	for _, list := range []*[]slice.Command{&p.Setup, &p.Checks, &p.Verify, &p.E2E} {
		*list = slices.Clone(*list)
		for i := range *list {
			(*list)[i].Name = NameOf((*list)[i])
		}
	}
	p.Agents.Judges = slices.Clone(p.Agents.Judges)
	for i := range p.Agents.Judges {
		j := &p.Agents.Judges[i]
		if j.Name == "" {
			j.Name = judgeName(i, len(p.Agents.Judges))
		}
		if lenses := slice.DefaultLenses(); j.Lens == "" && len(p.Agents.Judges) > 1 {
			j.Lens = lenses[i%len(lenses)]
		}
	}
	if p.Agents.Implementer.Name == "" && !isZero(p.Agents.Implementer) {
		p.Agents.Implementer.Name = "implementer"
	}
	for _, r := range []struct {
		agent **slice.Agent
		name  string
	}{{&p.Agents.Skeptics, "skeptics"}, {&p.Agents.Advisor, "advisor"}, {&p.Agents.Reconciler, "reconciler"}} {
		if a := *r.agent; a != nil && a.Name == "" {
			with := *a
			with.Name = r.name
			*r.agent = &with
		}
		if a := *r.agent; a != nil {
			with := fallbackNamed(*a)
			*r.agent = &with
		}
	}
	p.Agents.Implementer = fallbackNamed(p.Agents.Implementer)
	for i := range p.Agents.Judges {
		p.Agents.Judges[i] = fallbackNamed(p.Agents.Judges[i])
	}
	return p
}

func fallbackNamed(a slice.Agent) slice.Agent {
	if a.Fallback != nil && a.Fallback.Name == "" {
		with := *a.Fallback
		with.Name = a.Name + "-fallback"
		a.Fallback = &with
	}
	return a
}

func judgeName(i, n int) string {
	if n == 1 {
		return "judge"
	}
	return fmt.Sprintf("judge-%d", i+1)
}

const noLooser = "a slice can tighten the repository's policy, never loosen it"

// tighten applies own to repo. It does not change either.
func (d *document) tighten(repo, own slice.Policy) slice.Policy {
	p := repo
	p.Agents = d.tightenAgents(repo.Agents, own.Agents)
	if len(own.Setup) > 0 {
		d.bad("policy.setup", "the repository has a policy", "no setup in the slice", "what prepares the checks is the repository's to say")
	}
	p.Checks = concat(repo.Checks, own.Checks)
	if len(repo.Verify)+len(own.Verify) > 0 {
		whole := repo.Verify
		if len(whole) == 0 {
			whole = p.Checks
		}
		p.Verify = concat(whole, own.Verify)
	}
	p.E2E = concat(repo.E2E, own.E2E)
	rank(d, "policy.e2e_unmeasured", &p.E2EUnmeasured, own.E2EUnmeasured, slice.E2EBlocks, slice.E2EBlocks, slice.E2EDelivers)
	rank(d, "policy.sandbox", &p.Sandbox, own.Sandbox, slice.SandboxAuto, slice.SandboxRequired, slice.SandboxAuto, slice.SandboxOff)
	p.Protected = concat(repo.Protected, own.Protected)
	p.Frozen = concat(repo.Frozen, own.Frozen)
	p.Rubric = concat(repo.Rubric, own.Rubric)

	ours, theirs := counters(&p.Budgets), counters(&own.Budgets)
	for i, x := range theirs {
		limit := ours[i].def
		if *ours[i].n != nil {
			limit = **ours[i].n
		}
		if *x.n == nil {
			continue
		}
		if **x.n > limit {
			d.bad("policy.budgets."+x.key, fmt.Sprintf("it is %d", **x.n), fmt.Sprintf("at most %d", limit), noLooser)
			continue
		}
		*ours[i].n = *x.n
	}
	d.lowerUSD("policy.budgets.usd", &p.Budgets.USD, own.Budgets.USD, slice.DefaultSliceUSD)
	caps, lower := roleCaps(&p.Budgets.Roles), roleCaps(&own.Budgets.Roles)
	for i, r := range lower {
		d.lowerUSD("policy.budgets.roles."+r.role, caps[i].usd, *r.usd, maxUSD)
	}
	rank(d, "policy.on_over_budget", &p.OnOverBudget, own.OnOverBudget, slice.BudgetAborts, slice.BudgetAborts, slice.BudgetAsks)

	p.Gates.Plan = repo.Gates.Plan || own.Gates.Plan
	p.Gates.Publish = repo.Gates.Publish || own.Gates.Publish
	p.Gates.Merge = repo.Gates.Merge || own.Gates.Merge
	d.lower("policy.gates.remind", &p.Gates.Remind, own.Gates.Remind, slice.DefaultRemind)
	d.lower("policy.gates.expire", &p.Gates.Expire, own.Gates.Expire, slice.DefaultExpire)
	to := machine.Target(p.Deliver.To)
	rank(d, "policy.deliver.to", &to, machine.Target(own.Deliver.To), machine.ToBranch, machine.ToBranch, machine.ToPublish, machine.ToPropose, machine.ToMerge)
	p.Deliver.To = string(to)
	d.same("policy.deliver.remote", own.Deliver.Remote, cmp.Or(repo.Deliver.Remote, "origin"))
	d.tightenForge(&p.Deliver, own.Deliver)
	if own.Quota.Wait != nil {
		if *own.Quota.Wait && repo.Quota.Wait != nil && !*repo.Quota.Wait {
			d.bad("policy.quota.wait", "it is true", "false", noLooser)
		}
		p.Quota.Wait = own.Quota.Wait
	}
	d.lower("policy.quota.max_wait", &p.Quota.MaxWait, own.Quota.MaxWait, slice.DefaultMaxWait)
	d.lower("policy.quota.fallback_after", &p.Quota.FallbackAfter, own.Quota.FallbackAfter, slice.DefaultFallbackAfter)
	if own.Prices != nil && !reflect.DeepEqual(own.Prices, repo.Prices) {
		d.bad("policy.prices", "they are not the repository's", "the prices of the repository's policy, or none", "what tokens cost is the repository's to say")
	}
	for _, name := range own.Env {
		if !slices.Contains(repo.Env, name) {
			d.bad("policy.env", fmt.Sprintf("%q is not in the repository's env", name), "some of: "+strings.Join(repo.Env, ", "), noLooser)
		}
	}
	if own.Env != nil {
		p.Env = own.Env
	}
	return p
}

// tightenForge: a slice may wait for more of CI and for a shorter time.
func (d *document) tightenForge(p *slice.Deliver, own slice.Deliver) {
	if own.Forge != nil && (p.Forge == nil || *own.Forge != *p.Forge) {
		d.bad("policy.deliver.forge", "it is not the repository's", "the forge of the repository's policy, or nothing", noLooser)
	}
	if own.Checks != nil {
		p.Checks = append(slices.Clone(p.Checks), own.Checks...)
	}
	d.lower("policy.deliver.ci_timeout", &p.CITimeout, own.CITimeout, slice.DefaultCITimeout)
	d.same("policy.deliver.method", string(own.Method), string(cmp.Or(p.Method, slice.MergeCommit)))
}

func (d *document) tightenAgents(repo, own slice.Agents) slice.Agents {
	a := repo
	a.Implementer = *d.tightenAgent("policy.agents.implementer", &repo.Implementer, &own.Implementer)
	a.Judges = concat(repo.Judges, own.Judges)
	if own.Skeptics != nil && repo.Skeptics == nil {
		d.bad("policy.agents.skeptics", "the repository's policy has none", "nothing here", "skeptics refute what judges find: "+noLooser)
	}
	a.Skeptics = d.tightenAgent("policy.agents.skeptics", repo.Skeptics, own.Skeptics)
	a.Advisor = d.tightenAgent("policy.agents.advisor", repo.Advisor, own.Advisor)
	a.Reconciler = d.tightenAgent("policy.agents.reconciler", repo.Reconciler, own.Reconciler)
	return a
}

func (d *document) tightenAgent(at string, repo, own *slice.Agent) *slice.Agent {
	if own == nil || isZero(*own) {
		return repo
	}
	if repo == nil || isZero(*repo) {
		return own
	}
	a := *repo
	d.same(at+".name", own.Name, repo.Name)
	d.same(at+".use", string(own.Use), string(repo.Use))
	d.same(at+".model", own.Model, repo.Model)
	if own.Count != 0 && own.Count != cmp.Or(repo.Count, slice.DefaultSkeptics) {
		d.bad(at+".count", fmt.Sprintf("it is %d", own.Count), fmt.Sprintf("%d as in the repository's policy, or nothing", cmp.Or(repo.Count, slice.DefaultSkeptics)), noLooser)
	}
	if own.Run != nil && !slices.Equal(own.Run, repo.Run) {
		d.bad(at+".run", fmt.Sprintf("it is %.60q", own.Run.String()), "the program of the repository's policy, or none", noLooser)
	}
	if own.Fallback != nil && !reflect.DeepEqual(own.Fallback, repo.Fallback) {
		d.bad(at+".fallback", "it is not the repository's", "the fallback of the repository's policy, or none", noLooser)
	}
	d.lower(at+".timeout", &a.Timeout, own.Timeout, slice.DefaultCallTimeout)
	d.lowerUSD(at+".usd", &a.USD, own.USD, slice.DefaultCallUSD)
	return &a
}

func (d *document) same(at, own, repo string) {
	if own != "" && own != repo {
		d.bad(at, fmt.Sprintf("it is %.60q", own), fmt.Sprintf("%q as in the repository's policy, or nothing", repo), noLooser)
	}
}

func (d *document) lower(at string, v *slice.Duration, own, def slice.Duration) {
	switch {
	case own == 0:
	case time.Duration(own) > v.Or(def):
		d.bad(at, "it is "+time.Duration(own).String(), "at most "+v.Or(def).String(), noLooser)
	default:
		*v = own
	}
}

func (d *document) lowerUSD(at string, v **slice.USD, own *slice.USD, def slice.USD) {
	switch most := usdOr(*v, def); {
	case own == nil:
	case *own > most:
		d.bad(at, "it is "+own.String(), "at most "+most.String(), noLooser)
	default:
		*v = own
	}
}

// rank sets *v to own, if own does not stand behind it in order, which begins
// with the strictest.
func rank[T ~string](d *document, at string, v *T, own, def T, order ...T) {
	now := cmp.Or(*v, def)
	switch {
	case own == "":
	case slices.Index(order, own) > slices.Index(order, now):
		d.bad(at, fmt.Sprintf("it is %q", own), fmt.Sprintf("%q, or what is stricter", now), noLooser)
	default:
		*v = own
	}
}

func concat[T any](a, b []T) []T {
	if len(a)+len(b) == 0 {
		return nil
	}
	return append(slices.Clone(a), b...)
}

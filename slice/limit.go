package slice

import "time"

// Limit is a limit of a provider's account that an agent met.
type Limit struct {
	// Agent is the name of the agent, and Fallback whether it was its fallback.
	Agent    string `json:"agent"`
	Fallback bool   `json:"fallback,omitempty"`
	// ResetAt is when the limit ends as the provider says, in Unix
	// milliseconds; 0 if it does not say. Nobody has to believe it.
	ResetAt int64 `json:"reset_at,omitempty"`
	// Until is when the host lets the account be asked again, in Unix
	// milliseconds.
	Until int64 `json:"until,omitempty"`
	// Held says that no call was made: another one had met the limit.
	Held bool `json:"held,omitempty"`
}

// What is made of the time at which a limit is said to end.
const (
	// MaxProbe is the longest until an account is asked again, whatever was said.
	MaxProbe = 24 * time.Hour
	// leastProbe and mostBackoff bound the wait where no time was said, or one
	// that is past, or one that proved wrong: it doubles with each try.
	leastProbe  = 15 * time.Second
	mostBackoff = 30 * time.Minute
)

// ProbeAt returns when an account is asked again that was met limited at now,
// probes times in a row (from 1), and is said to be free at reset (zero if
// nothing was said). A time that cannot be is no reason to ask at once, or never.
func ProbeAt(now, reset time.Time, probes int) time.Time {
	back := mostBackoff
	if n := max(probes-1, 0); n < 7 {
		back = leastProbe << n
	}
	wait := reset.Sub(now)
	switch {
	case reset.IsZero() || wait <= 0:
		wait = back
	case probes > 1:
		wait = max(wait, back)
	}
	return now.Add(min(wait, MaxProbe))
}

// Called is one call of an agent program.
type Called struct {
	// Role is the role, Agent the name of the agent in policy.
	Role  string `json:"role"`
	Agent string `json:"agent"`
	// Use is the adapter that answered, Model the model; Fallback says that the
	// agent's fallback answered in its place.
	Use      Adapter `json:"use,omitempty"`
	Model    string  `json:"model,omitempty"`
	Fallback bool    `json:"fallback,omitempty"`
	// Class is how the call ended, CostMicroUSD what is charged for it.
	Class        string `json:"class"`
	CostMicroUSD int64  `json:"cost_micro_usd,omitempty"`
	// BriefBytes is the size of the brief.
	BriefBytes int64 `json:"brief_bytes,omitempty"`
	// Fresh says that the conversation that was to go on was lost or had grown
	// too long, so that a new one was begun with the whole brief.
	Fresh bool `json:"fresh,omitempty"`
}

// Question is what a role asks a person before it goes on.
type Question struct {
	ID   string `json:"id"`
	Role string `json:"role"`
	Text string `json:"text"`
}

// MostQuestions is how often a task may ask a person.
const MostQuestions = 2

// Replied is a question with its answer, as a brief has it.
type Replied struct {
	Question string `json:"question"`
	Answer   string `json:"answer"`
}

// Shortage is a call that was not made, or not ended, for want of money.
type Shortage struct {
	Role string `json:"role"`
	// NeedMicroUSD is what the call is reserved at.
	NeedMicroUSD int64 `json:"need_micro_usd"`
	// Reached says that a call reached the money that one call may cost.
	Reached bool `json:"reached,omitempty"`
}

// Calls are the terms on which a step may ask agents.
type Calls struct {
	// LeftMicroUSD is what may still be spent; nil means that nobody has said.
	LeftMicroUSD *int64 `json:"left_micro_usd,omitempty"`
	// Fallback names the agents whose fallback is asked in their place.
	Fallback []string `json:"fallback,omitempty"`
	// Renewed says that a person knows the account to be free again.
	Renewed bool `json:"renewed,omitempty"`
}

// Caller is an agent of the policy, as far as the workflow has to know it.
type Caller struct {
	Name string  `json:"name"`
	Role string  `json:"role"`
	Use  Adapter `json:"use"`
	// ReserveMicroUSD is the most that one call may cost.
	ReserveMicroUSD int64 `json:"reserve_micro_usd"`
	// Fallback says that it has one.
	Fallback bool `json:"fallback,omitempty"`
}

// RoleCost is what the calls of one role in one step have cost.
type RoleCost struct {
	Role         string `json:"role"`
	Step         string `json:"step"`
	Calls        int    `json:"calls"`
	CostMicroUSD int64  `json:"cost_micro_usd"`
	BriefBytes   int64  `json:"brief_bytes,omitempty"`
}

package main

import (
	"fmt"
	"strings"
	"time"

	"interlock/machine"
	"interlock/slice"
)

// waits is a wait in words, with its deadline.
func waits(w *slice.Wait) string {
	if w == nil {
		return ""
	}
	what := "waiting for " + waited(w.For)
	if w.Role != "" {
		what = fmt.Sprintf("waiting for the %s of %s", plain(string(w.For)), plain(w.Role))
	}
	until := "Jan 2 15:04"
	switch w.For {
	case slice.WaitQuestion:
		what = "waiting for an answer to the " + plain(w.Role)
	case slice.WaitMoney:
		what = "waiting for a higher cap"
	case slice.WaitQuota:
		until = "Jan 2 15:04:05 MST"
	default:
	}
	if w.Until > 0 {
		what += " until " + time.UnixMilli(w.Until).Format(until)
	}
	if w.For == slice.WaitQuota && w.Reset > 0 {
		what += ", as its provider says it ends at " + time.UnixMilli(w.Reset).Format(until)
	}
	return what
}

// waited is what a wait is for, in words.
func waited(f slice.WaitFor) string {
	switch f {
	case slice.WaitCI:
		return "CI"
	case slice.WaitForge:
		return "the forge"
	case slice.WaitUnknown:
		return "the forge to say what became of the last effect"
	default:
		return plain(string(f))
	}
}

// asked is what a person has to know to end a wait.
func asked(w *slice.Wait) string {
	if w.Text != "" {
		return w.Text
	}
	return w.Why
}

// since says how long a wait lasts and how often it asked.
func since(w *slice.Wait, now time.Time) string {
	s := fmt.Sprintf("since %s (%s)", time.UnixMilli(w.Since).Format("Jan 2 15:04"), took(now.Sub(time.UnixMilli(w.Since))))
	if w.Asked > 1 {
		s += fmt.Sprintf(", asked %d times", w.Asked)
	}
	if w.Reminded > 0 {
		s += ", reminded " + count(w.Reminded, "time")
	}
	return s
}

// endings are the commands that end a wait.
func (a *app) endings(id string, turn machine.Turn, w *slice.Wait) []string {
	if w == nil {
		return nil
	}
	switch w.For {
	case slice.WaitApproval:
		subject := " --subject " + w.Subject
		return []string{"interlock approve " + id + subject + a.here(), "interlock reject " + id + subject + a.here()}
	case slice.WaitReport:
		return []string{"interlock next " + id + a.here(), a.reportLine(id, turn, w.Role)}
	case slice.WaitQuota:
		return []string{"interlock quota-renewed " + id + a.here() + "    (if the account is free before)"}
	case slice.WaitQuestion:
		return []string{"interlock answer " + id + " --text 'ANSWER'" + a.here()}
	case slice.WaitMoney:
		role := ""
		if w.Role != "" {
			role = " --role " + w.Role
		}
		return []string{fmt.Sprintf("interlock raise %s --usd %s%s%s", id, strings.TrimPrefix(slice.USD(w.NeedMicroUSD).String(), "$"), role, a.here())}
	default:
		return nil // no command ends it
	}
}

// reportLine is the command that reports the answer of a role.
func (a *app) reportLine(id string, turn machine.Turn, role string) string {
	line := fmt.Sprintf("interlock report %s --step %s", id, turn.Step)
	if turn.Task > 0 {
		line += fmt.Sprintf(" --task %d --attempt %d", turn.Task, turn.Attempt)
	}
	if role != slice.RoleImplementer && role != slice.RoleAdvisor {
		line += " --role " + slice.Argv{role}.String()
	}
	return line + " --file ANSWER.json" + a.here()
}

// here is how home and server are named in a command that a person is told to type.
func (a *app) here() string {
	flags := a.homeFlag()
	if a.address != "" {
		flags += " --address " + slice.Argv{a.address}.String()
	}
	if a.namespace != "" {
		flags += " --namespace " + slice.Argv{a.namespace}.String()
	}
	return flags
}

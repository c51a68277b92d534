package slice

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"time"
)

// What a policy that is silent means.
const (
	DefaultCheckTimeout = Duration(10 * time.Minute)
	DefaultCallTimeout  = Duration(30 * time.Minute)
	DefaultCallUSD      = USD(1_000_000)
	DefaultSliceUSD     = USD(20_000_000)
	DefaultRemind       = Duration(24 * time.Hour)
	DefaultExpire       = Duration(7 * 24 * time.Hour)
	DefaultCITimeout    = Duration(2 * time.Hour)
	// DefaultMaxWait is longer than the longest window of the providers, a week.
	DefaultMaxWait       = Duration(8 * 24 * time.Hour)
	DefaultFallbackAfter = Duration(15 * time.Minute)
)

// Duration is a time.Duration, written as Go writes it ("10m", "1h30m").
type Duration time.Duration

// Or returns d, or def if d is 0.
func (d Duration) Or(def Duration) time.Duration {
	if d == 0 {
		return time.Duration(def)
	}
	return time.Duration(d)
}

// MarshalJSON writes d as a string.
func (d Duration) MarshalJSON() ([]byte, error) {
	return json.Marshal(time.Duration(d).String())
}

// UnmarshalJSON reads a string such as "10m".
func (d *Duration) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("expected a duration such as \"10m\": %w", err)
	}
	v, err := time.ParseDuration(s)
	if err != nil || v < 0 {
		return fmt.Errorf("%q is no duration: expected for example \"90s\", \"10m\" or \"1h30m\"", s)
	}
	*d = Duration(v)
	return nil
}

// USD is money in millionths of a US dollar, written as a decimal number of dollars.
type USD int64

// ParseUSD reads a decimal number of dollars with at most six digits after
// the point, such as "0.25". Negative amounts, exponents and words are refused.
func ParseUSD(s string) (USD, error) {
	bad := fmt.Errorf("%q is no amount of US dollars: expected for example 0.25 or 12", s)
	if s == "" || strings.Trim(s, "0123456789.") != "" || strings.Trim(s, ".") == "" {
		return 0, bad
	}
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		return 0, bad
	}
	r.Mul(r, big.NewRat(1_000_000, 1))
	if !r.IsInt() {
		return 0, fmt.Errorf("%q has more than six digits after the point", s)
	}
	if !r.Num().IsInt64() || r.Num().Int64() > 1_000_000_000_000_000 {
		return 0, fmt.Errorf("%q is more than a thousand million US dollars", s)
	}
	return USD(r.Num().Int64()), nil
}

// String writes u as dollars: "$0.25".
func (u USD) String() string { return "$" + u.decimal(2) }

func (u USD) decimal(least int) string {
	sign := ""
	if u < 0 {
		sign, u = "-", -u
	}
	s := fmt.Sprintf("%s%d.%06d", sign, int64(u)/1_000_000, int64(u)%1_000_000)
	for strings.HasSuffix(s, "0") && len(s)-strings.IndexByte(s, '.')-1 > least {
		s = s[:len(s)-1]
	}
	return strings.TrimSuffix(s, ".")
}

// MarshalJSON writes u as a number of dollars.
func (u USD) MarshalJSON() ([]byte, error) { return []byte(u.decimal(0)), nil }

// UnmarshalJSON reads a number of dollars.
func (u *USD) UnmarshalJSON(b []byte) error {
	v, err := ParseUSD(string(b))
	if err != nil {
		return err
	}
	*u = v
	return nil
}

// Argv is an argument list. In JSON and YAML it is a list of strings, or one
// string that /bin/sh -c runs.
type Argv []string

// Shell returns the argument list that runs a line of shell.
func Shell(line string) Argv { return Argv{"/bin/sh", "-c", line} }

// String shows a as a person would type it.
func (a Argv) String() string {
	if len(a) == 3 && a[0] == "/bin/sh" && a[1] == "-c" {
		return a[2]
	}
	words := make([]string, len(a))
	for i, w := range a {
		words[i] = w
		if w == "" || strings.ContainsAny(w, " \t\n\"'\\$&|;<>()*?[]#~=%{}`!") {
			words[i] = strconv.Quote(w)
		}
	}
	return strings.Join(words, " ")
}

// UnmarshalJSON reads a list of strings or one string.
func (a *Argv) UnmarshalJSON(b []byte) error {
	var line string
	if json.Unmarshal(b, &line) == nil {
		*a = Shell(line)
		return nil
	}
	var list []string
	if err := json.Unmarshal(b, &list); err != nil {
		return fmt.Errorf("expected a command as a string or a list of strings: %w", err)
	}
	*a = list
	return nil
}

package spec

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
)

// The longest ids, in bytes.
const (
	MaxID     = 100
	MaxTaskID = 64
)

var (
	idForm   = regexp.MustCompile(`^[A-Za-z0-9._-]*$`)
	reserved = regexp.MustCompile(`(?i)^(con|prn|aux|nul|com[0-9]|lpt[0-9])(\.|$)`)
)

// CheckID says whether id is fit to be a workflow id, a part of a ref name and
// the name of a folder, on every system.
func CheckID(id string) error {
	if why := nameFlaw(id, MaxID); why != "" {
		return fmt.Errorf("%.120q is no id of a slice: %s: expected %s", id, why, wantName(MaxID))
	}
	return nil
}

func wantName(most int) string {
	return fmt.Sprintf("at most %d letters, digits, '.', '_' or '-'", most)
}

// nameFlaw says why a name is not fit to name a ref and a folder, or nothing.
func nameFlaw(s string, most int) string {
	switch {
	case s == "":
		return "it is missing"
	case len(s) > most:
		return fmt.Sprintf("it has %d bytes", len(s))
	case !idForm.MatchString(s):
		return "it has other characters"
	case s[0] == '-' || s[0] == '.':
		return fmt.Sprintf("it begins with %q", s[0])
	case strings.Contains(s, ".."):
		return `it has ".."`
	case strings.HasSuffix(s, "."):
		return "it ends in '.'"
	case strings.HasSuffix(strings.ToLower(s), ".lock"):
		return `it ends in ".lock", which git keeps for itself`
	case reserved.MatchString(s):
		return "it is a name that Windows keeps for itself"
	}
	return ""
}

// DefaultID returns the id of a slice that has none of its own: the
// repository's key and the title. Titles that become the same word, because
// they are long or not in ASCII, are told apart by a hash.
func DefaultID(key, title string) string {
	const most = 60
	id := slug(title)
	if id == "" || len(id) > most || strings.ContainsFunc(title, func(r rune) bool { return r > 127 }) {
		sum := sha256.Sum256([]byte(title))
		id = strings.Trim(id[:min(len(id), most-9)]+"-"+hex.EncodeToString(sum[:4]), "-.")
	}
	if key = slug(key); len(key) > MaxID-most-1 {
		sum := sha256.Sum256([]byte(key))
		key = key[:MaxID-most-10] + "-" + hex.EncodeToString(sum[:4])
	}
	if key != "" {
		id = key + "." + id
	}
	if CheckID(id) != nil {
		return "slice-" + id
	}
	return id
}

// slug makes a word of lower-case letters, digits and single dashes of s.
func slug(s string) string {
	var b strings.Builder
	dash := false
	for _, r := range strings.ToLower(s) {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			if dash && b.Len() > 0 {
				b.WriteByte('-')
			}
			dash = false
			b.WriteRune(r)
			continue
		}
		dash = true
	}
	return b.String()
}

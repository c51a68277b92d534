package workspace

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"path"
	"regexp"
	"strings"
	"unicode"
)

// Key names a repository: readable, and one per canonical location (see Canonical). It is fit for a folder, a
// ref and the first part of a slice's id.
func Key(canonical string) string {
	name := strings.TrimSuffix(path.Base(strings.ReplaceAll(canonical, ":", "/")), ".git")
	var b strings.Builder
	for _, r := range name {
		if r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_') {
			b.WriteRune(r)
		} else if !strings.HasSuffix(b.String(), "-") {
			b.WriteByte('-')
		}
	}
	name = strings.Trim(b.String(), "-")
	if len(name) > 32 {
		name = strings.Trim(name[:32], "-")
	}
	if name == "" {
		name = "repository"
	}
	sum := sha256.Sum256([]byte(canonical))
	return name + "-" + hex.EncodeToString(sum[:])[:8]
}

var (
	sliceName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,199}$`)
	partName  = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)
	objectID  = regexp.MustCompile(`^[0-9a-f]{40}$`)
	hashLike  = regexp.MustCompile(`^[0-9a-fA-F]{7,64}$`)
	scpLike   = regexp.MustCompile(`^(?:([^@/:]+)@)?([^/:@]+):(.*)$`)
)

// CheckSlice says whether a slice's id can name folders and refs: letters, digits, '.', '_' and '-', at most
// 200, not beginning with '.' or '-', without "..", and not ending with '.' or ".lock".
func CheckSlice(slice string) error {
	if !sliceName.MatchString(slice) || strings.Contains(slice, "..") ||
		strings.HasSuffix(slice, ".") || strings.HasSuffix(slice, ".lock") {
		return errorf(InvalidInput, nil, "slice id %q cannot name a folder and a ref: use letters, digits, '.', '_', '-'", slice)
	}
	return nil
}

// sliceRef is refs/interlock/<slice>/<name>.
func sliceRef(slice, name string) (string, error) {
	if err := CheckSlice(slice); err != nil {
		return "", err
	}
	if !partName.MatchString(name) {
		return "", errorf(InvalidInput, nil, "%q is no name for a ref of a slice", name)
	}
	return "refs/interlock/" + slice + "/" + name, nil
}

func checkIDs(ids ...string) error {
	for _, id := range ids {
		if !objectID.MatchString(id) {
			return errorf(InvalidInput, nil, "%q is no full object id", id)
		}
	}
	return nil
}

// validRef follows git check-ref-format for a full ref name.
func validRef(ref string) bool {
	if !strings.HasPrefix(ref, "refs/") || strings.HasSuffix(ref, ".") || strings.HasSuffix(ref, "/") ||
		strings.Contains(ref, "..") || strings.Contains(ref, "@{") {
		return false
	}
	for _, part := range strings.Split(ref, "/") {
		if part == "" || strings.HasPrefix(part, ".") || strings.HasSuffix(part, ".lock") {
			return false
		}
	}
	return !strings.ContainsFunc(ref, func(r rune) bool {
		return r <= ' ' || r == 0x7f || strings.ContainsRune(`~^:?*[\`, r)
	})
}

// isLocal follows git: an address with a scheme, or with a colon before the first slash, is remote.
func isLocal(location string) bool {
	if strings.HasPrefix(location, "file://") {
		return true
	}
	colon := strings.Index(location, ":")
	slash := strings.Index(location, "/")
	return colon < 0 || slash >= 0 && slash < colon
}

// canonicalURL makes one address of the ways to write it. The user name of http is a credential and is left
// out; that of ssh may choose another home folder and stays.
func canonicalURL(location string) (string, error) {
	bad := errorf(InvalidInput, nil, "repository address cannot be read; expected a path, https://…, ssh://… or user@host:path")
	if !strings.Contains(location, "://") {
		m := scpLike.FindStringSubmatch(location)
		if m == nil || strings.HasPrefix(location, "-") || strings.HasPrefix(m[2], "-") || strings.HasPrefix(m[3], ":") {
			return "", bad
		}
		location = "ssh://" + m[2] + "/" + strings.TrimPrefix(m[3], "/")
		if m[1] != "" {
			location = "ssh://" + m[1] + "@" + strings.TrimPrefix(location, "ssh://")
		}
	}
	u, err := url.Parse(location)
	if err != nil || u.Host == "" || strings.HasPrefix(u.Host, "-") {
		return "", bad
	}
	scheme, user := strings.ToLower(u.Scheme), ""
	switch scheme {
	case "http", "https", "git":
	case "ssh":
		if name := u.User.Username(); name != "" {
			user = name + "@"
		}
	default:
		return "", bad
	}
	p := strings.TrimSuffix(strings.TrimRight(u.Path, "/"), ".git")
	return scheme + "://" + user + strings.ToLower(u.Host) + p, nil
}

// gitName says whether git, or a file system that git may meet, takes a path's component for ".git".
func gitName(component string) bool {
	s := strings.Map(func(r rune) rune {
		switch {
		case r >= 0x200c && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x206a && r <= 0x206f, r == 0xfeff:
			return -1
		}
		return r
	}, component)
	if i := strings.IndexAny(s, `\:`); i >= 0 {
		s = s[:i]
	}
	s = strings.ToLower(strings.TrimRight(s, ". "))
	return s == ".git" || s == "git~1"
}

package machine

// Path returns the steps that a slice under these rules takes if nothing goes
// wrong, in their order.
func Path(r Rules) []Step {
	var path []Step
	s := New(1, r)
	for !s.Ended() {
		path = append(path, s.Step)
		next, err := Next(s, Event{Step: s.Step, Outcome: Done})
		if err != nil {
			return path
		}
		s = next
	}
	return path
}

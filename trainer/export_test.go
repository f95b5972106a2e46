package trainer

// UserThreads is for the tests of limits.
var UserThreads = userThreads

// LaneError returns what a process says of a lane that has failed.
func LaneError(lane, round, client int, err error) error {
	return &laneError{lane, round, client, err}
}

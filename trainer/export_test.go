package trainer

// StartError is for the test of limits.
var StartError = startError

// LaneError returns what a process says of a lane that has failed.
func LaneError(lane, round, client int, err error) error {
	return &laneError{lane, round, client, err}
}

package trainer

// StartError makes startError available to TestThreadLimit.
var StartError = startError

// LaneError returns the error that a process reports for a failed lane.
func LaneError(lane, round, client int, err error) error {
	return &laneError{lane, round, client, err}
}

package bench

import "ipcbench/bench/result"

// What a run measures is kept in the types of package result.
type (
	Result      = result.Result
	Plan        = result.Plan
	Setup       = result.Setup
	Model       = result.Model
	Cell        = result.Cell
	Skipped     = result.Skipped
	Floor       = result.Floor
	Block       = result.Block
	Cold        = result.Cold
	TLS         = result.TLS
	Process     = result.Process
	LinkCount   = result.LinkCount
	Proof       = result.Proof
	Coding      = result.Coding
	CodingError = result.CodingError
	Profile     = result.Profile
	Timeline    = result.Timeline
	Host        = result.Host
	Layout      = result.Layout
	Layouts     = result.Layouts
	Canary      = result.Canary
)

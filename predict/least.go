package predict

import (
	"errors"
	"math"
	"math/bits"
	"slices"
)

// A solution is what units of features cost.
type solution struct {
	chosen []int // of features
	costs  []float64

	able    []int           // features that the points can tell apart, the chosen ones among them
	largest []float64       // of each feature, among the points; 0 of one that they do not have
	alike   map[int]mixture // of the others that they have: a sum of the able ones
	short   []int           // those for which there are too few shapes
}

// A mixture is one feature as a sum of others.
type mixture []float64 // factors of solution.able, of features as shares of their largest

func (s solution) at(w Work) float64 {
	sum := 0.0
	for i, k := range s.chosen {
		sum += s.costs[i] * features[k].of(w)
	}
	return sum
}

// same is by how much, as a share, a feature may be off the sum of others that it is
// taken for, and unlike by how much at most, if that is said.
const (
	same   = 0.02
	unlike = 0.5
)

// off returns of which feature the points tell least what it costs w, and how little: by
// which share it is off the sum of others that it has always gone with. It is infinite
// for one that none of the points has.
func (s solution) off(w Work) (feature string, share float64) {
	for k, f := range features {
		x := f.of(w)
		if s.largest[k] == 0 && x > 0 {
			return f.Name, math.Inf(1)
		}
		m, ok := s.alike[k]
		if !ok {
			continue
		}
		x, sum := x/s.largest[k], 0.0
		for i, a := range s.able {
			sum += m[i] * features[a].of(w) / s.largest[a]
		}
		if d := math.Abs(sum-x) / max(x, math.Abs(sum)); d > max(same, share) {
			feature, share = f.Name, d
		}
	}
	return feature, share
}

// tells reports whether the points tell what w costs.
func (s solution) tells(w Work) bool {
	_, off := s.off(w)
	return off <= unlike
}

// dropped returns the names of the features for which there are too few shapes.
func (s solution) dropped() []string {
	var all []string
	for _, k := range s.short {
		all = append(all, features[k].Name)
	}
	return all
}

var errNothing = errors.New("the points have no feature that tells them apart")

// solve finds the features, and their costs, none below zero, whose sums lie nearest to
// the points: by the sum of squares of the errors, each as a share of [Point.Scale]. Of
// two sums that are as near, the one with fewer features is better: by how much is the
// criterion of Schwarz ("Estimating the dimension of a model", 1978), with the factor by
// which Hurvich and Tsai ("Regression and time series model selection in small samples",
// 1989) correct another one for few points, and with a power of 1.5 of the logarithm.
// Without that power, one of six fits to 135 points with 3 % of noise kept a feature that
// cost nothing, which added up to 5 % to a prediction; with it, none of six hundred did.
// Of six points, one of a hundred fits keeps one: see TestAbsent and TestCalibrated.
//
// There are so few features that every subset of them is tried. The one that
// non-negative least squares finds (Lawson and Hanson, 1974) is among them.
func solve(points []Point, shapes int) (solution, error) {
	s := tellApart(points, shapes)
	if len(s.able) == 0 {
		return s, errNothing
	}
	scales := make([]float64, len(points))
	for i, p := range points {
		scales[i] = p.Scale()
	}
	s.choose(points, scales)
	// What noise has made smaller would count for more than what it has made larger. So
	// scales lie in the middle between what was measured and what is now known to be.
	for i, p := range points {
		q := p
		q.Value = s.at(p.Work)
		scales[i] = math.Sqrt(p.Scale() * q.Scale())
	}
	s.choose(points, scales)
	return s, nil
}

// choose finds the best subset of the able features, with their costs.
func (s *solution) choose(points []Point, scales []float64) {
	n := len(s.able)
	var g gram // of all of them; amounts are shares of the largest
	for j, p := range points {
		var row [most]float64
		for i, k := range s.able {
			row[i] = features[k].of(p.Work) / s.largest[k] / scales[j]
		}
		g.add(row[:n], p.Value/scales[j])
	}
	best, of := math.Inf(1), float64(len(points))
	for set := uint(1); set < 1<<n; set++ {
		x, rest, ok := g.solve(set)
		if !ok || slices.ContainsFunc(x, func(c float64) bool { return c < 0 }) {
			continue
		}
		size := float64(bits.OnesCount(set))
		if size+1 >= of {
			continue
		}
		criterion := of*math.Log(max(rest/of, finest*finest)) + size*math.Pow(math.Log(of), 1.5)*of/(of-size-1)
		if criterion >= best {
			continue
		}
		best, s.chosen, s.costs = criterion, nil, nil
		for i, k := range s.able {
			if set>>i&1 == 1 {
				s.chosen = append(s.chosen, k)
				s.costs = append(s.costs, x[len(s.costs)]/s.largest[k])
			}
		}
	}
}

// finest is the share below which nearer is no better.
const finest = 1e-3

// tellApart finds the features that points can tell apart: none that is a sum of those
// before it, and two fewer than there are shapes, so that something is left to be wrong.
func tellApart(points []Point, shapes int) solution {
	s := solution{largest: make([]float64, len(features)), alike: map[int]mixture{}}
	for k, f := range features {
		for _, p := range points {
			s.largest[k] = max(s.largest[k], f.of(p.Work))
		}
	}
	for _, k := range order(points) {
		f := features[k]
		if s.largest[k] == 0 {
			continue
		}
		var g gram
		sum := 0.0
		for _, p := range points {
			var row [most]float64
			y := f.of(p.Work) / s.largest[k]
			for i, a := range s.able {
				row[i] = features[a].of(p.Work) / s.largest[a]
			}
			g.add(row[:len(s.able)], y)
			sum += y * y
		}
		x, rest, ok := g.solve(1<<len(s.able) - 1)
		switch {
		case len(s.able) > 0 && ok && math.Sqrt(rest/sum) < same:
			s.alike[k] = x
		case len(s.able) >= max(1, shapes-2):
			s.short = append(s.short, k)
		default:
			s.able = append(s.able, k)
			for of := range s.alike { // a sum of fewer still is one
				s.alike[of] = append(s.alike[of], 0)
			}
		}
	}
	return s
}

// order returns features, those first that points which tell few of them have to tell.
// Where some works overflow the cache and others do not, that is one of these.
func order(points []Point) []int {
	all := make([]int, most)
	for k := range all {
		all[k] = k
	}
	overflows := func(p Point) bool { return p.Work.overflows() }
	if slices.ContainsFunc(points, overflows) && slices.ContainsFunc(points, func(p Point) bool { return !overflows(p) }) {
		k := place("overflow")
		all = slices.Insert(slices.Delete(all, k, k+1), place("tensor"), k)
	}
	return all
}

// most is how many features there are.
const most = len(features)

// A gram holds the normal equations of least squares: AᵀA, Aᵀy and yᵀy.
type gram struct {
	n  int
	aa [most][most]float64
	ay [most]float64
	yy float64
}

func (g *gram) add(row []float64, y float64) {
	g.n = len(row)
	for i, a := range row {
		for k, b := range row {
			g.aa[i][k] += a * b
		}
		g.ay[i] += a * y
	}
	g.yy += y * y
}

// solve returns the least squares of the columns in set, in their order, and what is
// left of the sum of squares, by the decomposition of Cholesky. It reports false where
// columns are sums of each other.
func (g *gram) solve(set uint) (x []float64, rest float64, ok bool) {
	var at []int
	for i := range g.n {
		if set>>i&1 == 1 {
			at = append(at, i)
		}
	}
	var l [most][most]float64
	x = make([]float64, len(at))
	rest = g.yy
	for i, p := range at {
		for k, q := range at[:i+1] {
			sum := g.aa[p][q]
			for m := range k {
				sum -= l[i][m] * l[k][m]
			}
			if i != k {
				l[i][k] = sum / l[k][k]
				continue
			}
			if sum <= 1e-10*g.aa[p][p] {
				return nil, 0, false
			}
			l[i][i] = math.Sqrt(sum)
		}
		sum := g.ay[p]
		for m := range i {
			sum -= l[i][m] * x[m]
		}
		x[i] = sum / l[i][i]
		rest -= x[i] * x[i]
	}
	for i := len(at) - 1; i >= 0; i-- {
		for m := i + 1; m < len(at); m++ {
			x[i] -= l[m][i] * x[m]
		}
		x[i] /= l[i][i]
	}
	return x, max(0, rest), true
}

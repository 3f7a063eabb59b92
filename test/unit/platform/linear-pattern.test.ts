import fc from 'fast-check'
import { expect, test } from 'vitest'
import { linearPattern } from '../../../src/platform/linear-pattern.ts'
import { runs } from '../../support/runs.ts'

/** An expression of the characters `a`, `b`, `-` and an emoji. */
const { expression } = fc.letrec<{ atom: string; term: string; sequence: string; expression: string }>(
  (tie) => ({
    atom: fc.oneof(
      { maxDepth: 2 },
      fc.constantFrom(
        ...['a', 'b', '😄', '-', '.', '\\w', '\\W', '[ab]', '[^a]', '[^]', '[]', '[\\]-a]', '\\u{1f604}'],
      ),
      fc.constantFrom(
        ...['\\ud83d\\ude04', '\\x61', '\\p{L}', '\\-'.slice(1), '^', '$', '\\b', '\\B', '\\n', '\\cJ'],
      ),
      tie('expression').map((inner) => `(${inner})`),
      tie('expression').map((inner) => `(?:${inner})`),
      tie('expression').map((inner) => `(?=${inner})`),
      tie('expression').map((inner) => `(?!${inner})`),
    ),
    term: fc
      .tuple(
        tie('atom'),
        fc.constantFrom('', '', '*', '+', '?', '{2}', '{0,2}', '{1,}', '*?', '+?', '{2,3}?'),
      )
      .map(([atom, times]) => (/^(?:[\^$]|\\[bB]|\(\?[=!].*)$/s.test(atom) ? atom : atom + times)),
    sequence: fc.array(tie('term'), { maxLength: 3 }).map((terms) => terms.join('')),
    expression: fc.array(tie('sequence'), { minLength: 1, maxLength: 3 }).map((choices) => choices.join('|')),
  }),
)

const unit = fc.constantFrom('a', 'b', '-', '😄', '\ud83d', '\n', 'ä')

test('it matches what a RegExp does', () => {
  fc.assert(
    fc.property(
      expression,
      fc.array(fc.string({ unit, maxLength: 4 }), { maxLength: 5 }),
      (source, texts) => {
        const pattern = linearPattern(source)
        const expected = new RegExp(source, 'u')
        for (const text of texts)
          expect([source, text, pattern.test(text)]).toEqual([source, text, expected.test(text)])
      },
    ),
    // A character of two code units is one.
    {
      numRuns: runs(50),
      examples: [
        ['^.a$', ['😄a']],
        ['^b(?:){2}a$', ['ba']],
      ],
    },
  )
})

test('no pattern makes it try again what it has tried: a RegExp would take years', () => {
  const long = 'a'.repeat(1_000)
  for (const source of [
    '^(a+)+$',
    '^(a|a)*$',
    '^(a*)*$',
    '^(a|aa)+$',
    '(a+)+b',
    '^(([a-z])+.)+[A-Z]$',
    '(.*a){12}b',
  ])
    expect([source, linearPattern(source).test(`${long}!`)]).toEqual([source, false])
  fc.assert(
    fc.property(expression, (source) => {
      const repeated = linearPattern(`^(?:(?:${source})+)*c$`)
      for (const text of [long, `${'ab-'.repeat(200)}!`])
        expect(() => {
          if (repeated.test(text)) throw new Error('it cannot match')
        }).not.toThrow(/cannot/)
    }),
    { numRuns: runs(10) },
  )
})

test.each([
  '(',
  '[',
  'a**',
  '(?<=a)',
  '(?<!a)',
  '(a)\\1',
  '(?<n>a)\\k<n>',
  '((a{999}){999}){999}',
  '((?=a{999})){999}',
  '(){99999999}',
  `${'('.repeat(101)}a${')'.repeat(101)}`,
])('an expression that is wrong, too large, or needs backtracking is refused: %s', (source) => {
  expect(() => linearPattern(source)).toThrow(SyntaxError)
})

test('lookaheads that look at the whole text from each place have a limit', () => {
  const email = linearPattern(
    '^(?!\\.)(?!.*\\.\\.)([\\w.+-]*)[\\w+-]@([A-Za-z0-9][A-Za-z0-9-]*\\.)+[A-Za-z]{2,}$',
  )
  expect(
    ['ada@a.example', 'a..b@a.example', '.a@a.example', 'ada@a'].map((each) => email.test(each)),
  ).toEqual([true, false, false, false])
  expect(() => linearPattern('(?=.*b)(?=.*c)d').test('a'.repeat(20_000))).toThrow(RangeError)
})

test('a name of a group means nothing', () => {
  expect(linearPattern('^(?<year>\\d{4})-(?<month>\\d\\d)$').test('2026-11')).toBe(true)
})
